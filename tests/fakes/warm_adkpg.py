"""The command ``adkpg`` as a fork of a process that has imported it: two seconds less a command.

``python -m tests.fakes.warm_adkpg SOCKET`` serves until it is ended, with its children; the program
that `client` writes hands over its arguments, folder, environment and streams, and waits for the
exit code.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path

_CLIENT = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)])
    socket.send_fds(server, [len(asked.encode()).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(asked.encode())
    sys.exit(int(server.recv(8) or b"1"))
"""
_LENGTH = 8


def client(path: Path) -> str:
    """Returns the program that asks the server at a path, as Python."""
    return _CLIENT.format(path=str(path))


def _serve(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        # Forks of forks are nobody's to wait for but this process's children.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            asking, _ = listening.accept()
            if os.fork():
                asking.close()
                continue
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(asking)


def _answer(asking: socket.socket) -> None:
    length, streams, _, _ = socket.recv_fds(asking, _LENGTH, 3)
    with asking.makefile("rb") as said:
        arguments, folder, variables = json.loads(said.read(int.from_bytes(length, "big")))
    program = os.fork()
    if not program:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.argv = ["adkpg", *arguments]
        main(prog_name="adkpg")
        raise AssertionError("main exits")
    _, status = os.waitpid(program, 0)
    asking.sendall(str(os.waitstatus_to_exitcode(status) & 0xFF).encode())
    os._exit(0)


if __name__ == "__main__":
    from google.adk.runners import Runner  # noqa: F401 # for the commands

    import adkpg.database.database
    import adkpg.memory.service
    import adkpg.sessions.service  # noqa: F401
    from adkpg.tooling.cli import main

    _serve(sys.argv[1])
