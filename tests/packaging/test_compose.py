"""docker-compose.yml is valid, and the command of each of its services does its work."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import yaml

from adkpg import DatabaseSessionService
from adkpg.database import address
from adkpg.tooling.testing import said
from adkpg.tooling.testing.server import IMAGE
from tests.fakes.checkout import CHECKOUT

FILE = CHECKOUT / "docker-compose.yml"
(DECLARED,) = re.findall(r"^ENTRYPOINT (.*)$", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)
ENTRYPOINT: list[str] = json.loads(DECLARED)
TURN = {
    "appName": "companion",
    "userId": "ana",
    "sessionId": "one",
    "newMessage": {"role": "user", "parts": [{"text": "My bike is in the shed."}]},
}


def services(**variables: str) -> dict[str, Any]:
    """The services, with variables where the file names them, as compose fills them in."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [filled(each) for each in value]
        if isinstance(value, str):
            value = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda m: variables.get(m[1]) or m[2], value)
            assert "$" not in value, "a variable without a default"
        return value

    found: dict[str, Any] = filled(yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"])
    return found


@pytest.mark.program
def test_it_is_a_valid_compose_file() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run([*check, str(FILE)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_it_serves_the_tested_image_to_this_machine_only() -> None:
    found = services()
    postgres = found["postgres"]
    assert postgres["image"] == IMAGE
    for service in found.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    # https://github.com/docker-library/postgres/pull/1259: the place changed with 18.
    assert postgres["volumes"] == ["postgres:/var/lib/postgresql"]


def test_all_reach_the_same_database_and_start_behind_its_migration() -> None:
    found = services(ADKPG_POSTGRES_PASSWORD="hidden")
    postgres = found.pop("postgres")["environment"]
    for service in found.values():
        place = address.parse(service["environment"]["ADKPG_DATABASE_URL"])
        password, name = postgres["POSTGRES_PASSWORD"], postgres["POSTGRES_DB"]
        assert place.dsn == f"postgresql://adkpg:{password}@postgres:5432/{name}"
    migration = found.pop("migration")
    assert migration["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert {*found} == {"api", "worker"}
    for service in found.values():
        completed = {"condition": "service_completed_successfully"}
        assert service["depends_on"] == {"migration": completed}


def test_all_serve_as_a_role_that_policies_hold() -> None:
    file = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    postgres = file["services"]["postgres"]
    assert "POSTGRES_USER" not in postgres["environment"]  # the image's superuser is another one
    (config,) = postgres["configs"]
    assert config["target"].startswith("/docker-entrypoint-initdb.d/")
    made = file["configs"][config["source"]]["content"]
    assert "CREATE ROLE adkpg LOGIN PASSWORD :'password';" in made
    assert "SUPERUSER" not in made


def test_all_run_the_dockerfiles_image() -> None:
    # What that holds is test_image.py's.
    found = services()
    del found["postgres"]
    for service in found.values():
        assert (service["image"], service["build"]) == ("adkpg", ".")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def found() -> dict[str, Any]:
    """The services, with a port that is free here."""
    return services(ADKPG_API_PORT=str(free_port()))


@pytest.fixture
def image(found: dict[str, Any], tmp_path: Path) -> Path:
    """A folder like the image's, with the agents that the file puts there."""
    (volume,) = found["api"]["volumes"]
    source, place, access = volume.split(":")
    assert (place, access) == ("/app/agents", "ro")
    shutil.copytree(CHECKOUT / source, tmp_path / "app" / "agents")
    return tmp_path / "app"


def environment(service: dict[str, Any], url: str) -> dict[str, str]:
    """A container's, in which adkpg and python are those of this run."""
    return {
        **service["environment"],
        "ADKPG_DATABASE_URL": url,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",  # the agents are mounted to be read
        "PYTHONWARNINGS": "default::ResourceWarning",
    }


@contextmanager
def started(service: dict[str, Any], url: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The command of a service, as it is given, ended as `docker compose stop` does."""
    process = subprocess.Popen(
        [*ENTRYPOINT, *service["command"]],
        cwd=folder,
        env=environment(service, url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def stop(process: subprocess.Popen[str]) -> str:
    """Ends a service, and returns what it has printed."""
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=250)
    assert "Traceback" not in printed, printed
    assert "ResourceWarning" not in printed, printed
    return printed


def migrate(found: dict[str, Any], url: str, folder: Path) -> str:
    done = subprocess.run(
        [*ENTRYPOINT, *found["migration"]["command"]],
        cwd=folder,
        env=environment(found["migration"], url),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


async def healthy(service: dict[str, Any], url: str, folder: Path) -> None:
    """Waits until the service's health check passes; the test's own timeout ends it."""
    kind, *command = service["healthcheck"]["test"]
    assert kind == "CMD"
    while True:
        check = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=environment(service, url),
            stderr=asyncio.subprocess.DEVNULL,
        )
        if await check.wait() == 0:
            return


@pytest.mark.program
async def test_the_migration_makes_the_tables_again_and_again(
    found: dict[str, Any], image: Path, empty_database_url: str
) -> None:
    assert "revision" in migrate(found, empty_database_url, image)
    assert "revision" in migrate(found, empty_database_url, image)
    connection = await asyncpg.connect(empty_database_url)
    try:
        assert await connection.fetchval("SELECT count(*) FROM adkpg.sessions") == 0
    finally:
        await connection.close()


@pytest.mark.program
async def test_the_api_answers_and_remembers_and_ends(
    found: dict[str, Any],
    image: Path,
    database_url: str,
    connection: asyncpg.Connection,
) -> None:
    files = listed(image)
    api = found["api"]
    url = f"http://127.0.0.1:{api['ports'][0].rpartition(':')[2]}"
    with started(api, database_url, image) as process:
        await healthy(api, database_url, image)
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            place = "/apps/companion/users/ana/sessions"
            assert (await client.post(place, json={"sessionId": "one"})).status_code == 200
            answer = await client.post("/run", json=TURN)
            assert answer.status_code == 200, answer.text
        assert await connection.fetchval("SELECT count(*) FROM events") == 2
        assert await connection.fetchval("SELECT count(*) FROM memories") == 2
        stop(process)
    assert listed(image) == files, "nothing is written next to the agents"


@pytest.mark.program
async def test_the_worker_embeds_and_ends(
    found: dict[str, Any],
    image: Path,
    database_url: str,
    connection: asyncpg.Connection,
) -> None:
    async with DatabaseSessionService(database_url, remember=True) as sessions:
        session = await sessions.create_session(app_name="app", user_id="ana")
        await sessions.append_event(session, said("My bike is in the shed."))
    # The file's port is the container's own; here another may have it.
    worker = json.loads(json.dumps(found["worker"]).replace("8080", str(free_port())))
    with started(worker, database_url, image) as process:
        await healthy(worker, database_url, image)
        while await connection.fetchval("SELECT count(*) FROM memory_vectors") == 0:
            assert process.poll() is None
        printed = stop(process)
        assert process.returncode == 0
        assert printed.splitlines()[-1] == "Embedded 1 memory."  # the first introduces it
