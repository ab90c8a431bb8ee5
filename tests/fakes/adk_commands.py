"""ADK's real commands as processes, over a folder of agents that a test writes."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.fakes.checkout import CHECKOUT
from tests.fakes.pages import blocks

SERVICES_PY = "from adkpg.adk import register\n\nregister()\n"
(_IN_YAML,) = blocks(CHECKOUT / "docs" / "serving.md", "yaml")
SERVICES_YAML = _IN_YAML.text
# What is left open at the end would be told.
ADK = [sys.executable, "-W", "default::ResourceWarning", "-m", "google.adk.cli"]
ADKPG = [sys.executable, "-W", "default::ResourceWarning", "-m", "adkpg"]


def write_agents(folder: Path) -> Path:
    """Writes the assistant as ``folder/assistant`` and returns that folder."""
    agent = folder / "assistant"
    agent.mkdir(parents=True)
    (agent / "__init__.py").write_text("from . import agent\n")
    shutil.copy(Path(__file__).with_name("assistant.py"), agent / "agent.py")
    return agent


def environment(**variables: str) -> dict[str, str]:
    """The environment of a command: the test's, with color and buffering off."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **variables}


class ApiServer:
    """A running ``adk api_server`` on a free port.

    Attributes:
      client: Speaks to it.
      log: All that it has printed; whole after the block.
      returncode: What it ended with, after the block.
    """

    _ends_by = signal.SIGINT

    def __init__(self, agents: Path, *options: str, env: Mapping[str, str]) -> None:
        self._command = [*ADK, "api_server", "--port", "0", "--no-reload", *options, str(agents)]
        self._env = dict(env)
        self._lines: list[str] = []
        self._url = ""
        self._told = threading.Event()

    @property
    def log(self) -> str:
        return "".join(self._lines)

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        if not self._told.wait(timeout=250) or not self._url:
            self._stop()
            raise AssertionError(f"adk api_server did not start:\n{self.log}")
        self.client = httpx.Client(base_url=self._url, timeout=60)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.client.close()
        self._stop()

    def kill(self) -> None:
        """Ends the process at once."""
        self._process.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            if found := re.search(r"Uvicorn running on (http://[0-9.:]+)", line):
                self._url = found[1]
                self._told.set()
        self._told.set()

    def _stop(self) -> None:
        self._process.send_signal(self._ends_by)
        try:
            self._process.wait(timeout=250)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


class AdkpgServer(ApiServer):
    """A running ``adkpg api-server`` or ``adkpg web`` on a free port.

    Args:
      agents: The folder of agents.
      options: More of ADK's options.
      env: Its environment.
      command: The command's name.
    """

    def __init__(
        self, agents: Path, *options: str, env: Mapping[str, str], command: str = "api-server"
    ) -> None:
        super().__init__(agents, env=env)
        self._command = [*ADKPG, command, "--port", "0", *options, str(agents)]


class OwnServer(ApiServer):
    """A program that serves the app of ADK's server itself, on a free port.

    Args:
      program: Its text.
      env: Its environment.
    """

    def __init__(self, program: str, *, env: Mapping[str, str]) -> None:
        super().__init__(Path(), env=env)
        self._command = [sys.executable, "-W", "default::ResourceWarning", "-c", program]


class Served(ApiServer):
    """An app that uvicorn serves on a free port, and that SIGTERM ends, as deployments do.

    Args:
      folder: Where its module lies.
      app: Its module and name.
      env: Its environment.
    """

    _ends_by = signal.SIGTERM

    def __init__(self, folder: Path, app: str, *, env: Mapping[str, str]) -> None:
        super().__init__(folder, env=env)
        uvicorn = [sys.executable, "-W", "default::ResourceWarning", "-m", "uvicorn"]
        self._command = [*uvicorn, "--app-dir", str(folder), app, "--port", "0"]


@dataclass(frozen=True)
class Account:
    """A role of the test's own, whose password nobody may print.

    Attributes:
      uri: The test's database, as this role.
      password: What no log may hold.
    """

    uri: str
    password: str
