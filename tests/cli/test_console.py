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
from urllib.parse import urlsplit
from urllib.request import url2pathname

import asyncpg
import httpx
import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.tooling.cli.console.command import _own_address
from adkpg.tooling.console.application import _ACTIONS, _PAGES
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
    with served(database_url, "--no-browser") as (printed, process):
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)\?token=[\w-]{32}", printed)
        assert found is not None
        address = found[1]
        sessions = DatabaseSessionService(database)
        await sessions.create_session(app_name="a", user_id="u", session_id="s")
        async with httpx.AsyncClient(follow_redirects=True) as client:
            assert "Log in" in (await client.get(address)).text
            answer = await client.get(printed)
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


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_it_is_served_with_a_token_only(database_url: str, host: str) -> None:
    with served(database_url, "--no-browser", "--host", host) as (address, process):
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)\?token=([\w-]{32})", address)
        assert found is not None, "one that can be opened, which 0.0.0.0 is not"
        here, once = found[1], {"token": found[2]}
        for path in _PAGES:
            assert httpx.get(f"{here}{path[1:]}").headers["location"] == "/login", path
        for path in _ACTIONS:
            assert httpx.post(f"{here}{path[1:]}").status_code == 403, path
        with httpx.Client(follow_redirects=True) as client:
            assert client.get(here, params=once).url.path == "/"
            assert client.get(here).url.path == "/"
        assert httpx.get(here, params=once).status_code == 403, "it opened already"
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        lasting = process.stdout.read().split()[-1].rstrip(".")
        assert lasting != once["token"]
        assert re.fullmatch(r"[\w-]{32}", lasting)


def test_each_address_that_it_prints_can_be_opened(database_url: str) -> None:
    with served(database_url, "--no-browser", "--host", "0.0.0.0") as (address, process):
        with httpx.Client(follow_redirects=True) as client:
            assert client.get(address).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        further = process.stdout.read()
    own = [f"http://{each}:{httpx.URL(address).port}/" for each in _own_address(AF_INET)]
    assert [line.partition("?")[0] for line in further.splitlines()[:-1]] == own


@pytest.mark.parametrize("token", ["of the environment & more", ""])
def test_a_browser_is_let_in_and_no_command_line_says_how(
    database_url: str, tmp_path: Path, token: str
) -> None:
    opened = tmp_path / "opened"
    browser = browser_that_writes(opened, tmp_path)
    with served(database_url, BROWSER=browser, ADKPG_CONSOLE_TOKEN=token) as (address, _):
        here = address.partition("?")[0]
        assert (address == here) == bool(token), "one of the environment stays out of logs"
        assert httpx.get(here).status_code == 303
        given = opened.read_text()
        page = Path(url2pathname(urlsplit(given).path))
        assert page.parent.stat().st_mode & 0o777 == 0o700
        (target,) = re.findall(r'content="0;url=([^"]+)"', page.read_text())
        assert httpx.URL(target).params["token"] not in given
        assert httpx.URL(target).params["token"] not in (token, address)
        with httpx.Client(follow_redirects=True) as client:
            assert client.get(target).url.path == "/", "it is let in at once"
        assert not page.exists()
        assert httpx.get(target).status_code == 403


def test_the_lab_has_a_setting_of_the_reranker(database_url: str, tmp_path: Path) -> None:
    export(tmp_path / "encoder")
    with (
        served(database_url, "--no-browser", "--reranker", f"onnx:{tmp_path / 'encoder'}") as (
            address,
            _,
        ),
        httpx.Client(follow_redirects=True) as client,
    ):
        lab = client.get(address).url.join("/lab")
        page = client.get(lab, params={"app": "a", "user": "u"}).text
        assert "reranked by encoder" in page
        asked = {"app": "a", "user": "u", "q": "bike", "a_model": "reranked by encoder"}
        assert "Nothing is near enough" in client.get(lab, params=asked).text


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
