"""The program as a process: ``python -m adkpg``, a broken pipe, Ctrl-C."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.fakes.signals import interrupts_heard

pytestmark = pytest.mark.program

ADKPG = [sys.executable, "-m", "adkpg"]


def test_python_m_adkpg_is_the_program() -> None:
    done = subprocess.run([*ADKPG, "db", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: adkpg db ")
    assert done.stderr == ""


def test_a_reader_that_goes_away_leaves_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run([*ADKPG, "db", "sql"], stdout=pipe, stderr=subprocess.PIPE)
    assert done.stderr == b""
    assert done.returncode == 1


def test_ctrl_c_ends_a_waiting_command_without_a_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = f"postgresql://me@127.0.0.1:{port}/agents?sslmode=disable"
        with interrupts_heard():
            process = subprocess.Popen(
                [*ADKPG, "db", "current", "--database-url", url],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        silent.settimeout(60)
        connection, _ = silent.accept()
        with connection:
            connection.recv(1)  # the command now waits for an answer
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=250)
    assert process.returncode == 1
    assert out == ""
    assert err.strip() == "Aborted!"


def test_a_removal_without_standard_input_is_refused(database_url: str) -> None:
    command = [*ADKPG, "db", "downgrade", "base", "--database-url", database_url]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "Error: Nothing was removed, since there is no terminal to ask on; add --yes.\n"
    )
