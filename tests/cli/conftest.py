"""Runs commands in this process, with standard output and error kept apart."""

import io

import pytest

from adkpg.tooling.cli import main
from tests.fakes.commands import Adkpg, Outcome


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def adkpg(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Adkpg:
    """Runs ``adkpg`` with some arguments, as the installed program does.

    Its standard input is a terminal on which `answer` is typed, and no terminal without one.
    """

    def run(*arguments: str, answer: str | None = None) -> Outcome:
        stdin = io.StringIO() if answer is None else Terminal(answer)
        monkeypatch.setattr("sys.stdin", stdin)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(arguments), prog_name="adkpg")
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Outcome(code, captured.out, captured.err)

    return run
