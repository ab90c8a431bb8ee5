"""``adkpg console``: its address, who may come in, and its end."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import AF_INET

import asyncpg
import httpx
import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.cli.console.command import _own_address
from tests.fakes.cross_encoder import export
from tests.fakes.signals import interrupts_heard

pytestmark = pytest.mark.program


@contextmanager
def served(url: str, *options: str, **env: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Runs the command; yields the address that it printed."""
    with interrupts_heard():
        process = subprocess.Popen(
            [sys.executable, "-m", "adkpg", "console", "--port", "0", *options],
            env=os.environ | {"ADKPG_DATABASE_URL": url, "ADKPG_EMBEDDER": "none"} | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()


def browser_that_writes(opened: Path, folder: Path) -> str:
    """Returns a program that writes down the address that it is given."""
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    return str(browser)


async def test_it_serves_this_machine_and_ends_without_a_traceback(
    database_url: str, database: Database, connection: asyncpg.Connection
) -> None:
    with served(database_url, "--no-browser") as (address, process):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        sessions = DatabaseSessionService(database)
        await sessions.create_session(app_name="a", user_id="u", session_id="s")
        async with httpx.AsyncClient() as client:
            answer = await client.get(address)
            assert answer.status_code == 200
            assert "Content-Security-Policy" in answer.headers
            other = await client.get(address, headers={"Host": "evil.example"})
            assert other.status_code == 421
            query = {"app": "a", "user": "u", "session": "s", "known": "0"}
            watched = asyncio.create_task(client.get(f"{address}session/live", params=query))
            while not await connection.fetchval("SELECT watched_until FROM sessions"):
                await asyncio.sleep(0)
            process.send_signal(signal.SIGINT)
            assert (await watched).status_code == 200
        _, errors = process.communicate(timeout=250)
        assert (process.returncode, errors) == (0, "")


def test_another_address_is_served_with_a_token_only(database_url: str) -> None:
    with served(database_url, "--no-browser", "--host", "0.0.0.0") as (address, _):
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)\?token=([\w-]{32})", address)
        assert found is not None, "one that can be opened, which 0.0.0.0 is not"
        here = found[1]
        assert httpx.get(here).status_code == 303
        with httpx.Client(follow_redirects=True) as client:
            assert client.get(here, params={"token": found[2]}).status_code == 200


def test_each_address_that_it_prints_can_be_opened(database_url: str) -> None:
    with served(database_url, "--no-browser", "--host", "0.0.0.0") as (address, process):
        with httpx.Client(follow_redirects=True) as client:
            assert client.get(address).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        further = process.stdout.read()
    own = "".join(f"http://{each}:{httpx.URL(address).port}/" for each in _own_address(AF_INET))
    assert further.partition("?")[0] == own


def test_a_token_of_the_environment_holds_and_is_not_printed(
    database_url: str, tmp_path: Path
) -> None:
    token = "of the environment & more"
    opened = tmp_path / "opened"
    browser = browser_that_writes(opened, tmp_path)
    with served(database_url, BROWSER=browser, ADKPG_CONSOLE_TOKEN=token) as (address, _):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        assert httpx.get(address).status_code == 303
        with httpx.Client(follow_redirects=True) as client:
            assert client.get(opened.read_text()).url.path == "/", "it is let in at once"


def test_the_lab_has_a_setting_of_the_reranker(database_url: str, tmp_path: Path) -> None:
    export(tmp_path / "encoder")
    with served(database_url, "--no-browser", "--reranker", f"onnx:{tmp_path / 'encoder'}") as (
        address,
        _,
    ):
        page = httpx.get(f"{address}lab", params={"app": "a", "user": "u"}).text
        assert "reranked by encoder" in page
        asked = {"app": "a", "user": "u", "q": "bike", "a_model": "reranked by encoder"}
        assert "Nothing is near enough" in httpx.get(f"{address}lab", params=asked).text


def test_it_opens_the_browser_that_the_environment_names(database_url: str, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    with served(database_url, BROWSER=browser_that_writes(opened, tmp_path)) as (address, _):
        assert httpx.get(address).status_code == 200
        assert opened.read_text() == address


def test_a_port_that_is_taken_is_one_sentence(database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "adkpg", "console", "--no-browser", "--port", port],
            env=os.environ | {"ADKPG_DATABASE_URL": database_url, "ADKPG_EMBEDDER": "none"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(r"Error: The console cannot listen on .*\n", done.stderr)


def test_a_short_token_is_one_sentence(database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "adkpg", "console", "--no-browser", "--port", "0"],
        env=os.environ
        | {
            "ADKPG_DATABASE_URL": database_url,
            "ADKPG_CONSOLE_TOKEN": "short",
            "ADKPG_EMBEDDER": "none",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "at least 16" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_is_compared_must_be_one(database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "adkpg", "console", "--no-browser", "--compare", "nothing"],
        env=os.environ | {"ADKPG_DATABASE_URL": database_url, "ADKPG_EMBEDDER": "none"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode != 0
    assert "'nothing' names no embedder" in done.stderr
    assert "Traceback" not in done.stderr
