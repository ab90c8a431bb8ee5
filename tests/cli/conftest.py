"""Runs commands in this process, with standard output and error kept apart."""

import pytest

from adkpg.cli import main
from tests.fakes.commands import Adkpg, Outcome


@pytest.fixture
def adkpg(capsys: pytest.CaptureFixture[str]) -> Adkpg:
    """Runs ``adkpg`` with some arguments, as the installed program does."""

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(arguments), prog_name="adkpg")
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Outcome(code, captured.out, captured.err)

    return run
