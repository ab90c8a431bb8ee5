"""What stands in for programs that the documentation names and a test cannot run.

``python -m tests.fakes.page_programs pip install 'adkpg[local]'`` ends with 0 if that makes sense.
What is imported here is paid for at each command of a page.
"""

import shlex
import stat
import sys
from importlib import metadata
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from tests.fakes import warm_adkpg
from tests.fakes.checkout import CHECKOUT

_HERE = "tests.fakes.page_programs"
_HOLLOW = ("docker", "gcloud", "make", "aws", "az")


def write_programs(directory: Path) -> Path:
    """Writes them into a new directory, for the front of a PATH, and returns it.

    ``adkpg`` is the real command, forked off the process that `warm` starts, but its doctor
    may find that the tests' server is quick and unsafe; ``git`` makes the folder that a clone would
    be in.
    """
    python = shlex.quote(sys.executable)
    here = f"PYTHONPATH={shlex.quote(str(CHECKOUT))} exec {python} -m {_HERE}"
    directory.mkdir()
    adkpg = f'{python} -SE {_asking(directory)} "$@"'
    scripts = {
        "adkpg": f'{adkpg}\ncode=$?\n[ "$1 $code" = "doctor 1" ] || exit $code',
        "git": '[ "$1" != clone ] || mkdir -p "$(basename "$2")"',
        "pip": f'{here} pip "$@"',
        "kubectl": f'{here} kubectl "$@"',
        **dict.fromkeys(_HOLLOW, "exit 0"),
    }
    for program, script in scripts.items():
        path = directory / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return directory


def warm(directory: Path) -> str:
    """Returns the command that lets ``adkpg`` of that directory run, and ends with the shell's."""
    python, place = shlex.quote(sys.executable), shlex.quote(str(directory / "socket"))
    started = f"PYTHONPATH={shlex.quote(str(CHECKOUT))} {python} -m {warm_adkpg.__name__} {place} &"
    return f"rm -f {place}; {started}\nuntil [ -S {place} ]; do read -rt 0.05 <> <(:) || :; done"


def _asking(directory: Path) -> str:
    program = directory / "ask.py"
    program.write_text(warm_adkpg.client(directory / "socket"))
    return shlex.quote(str(program))


def pip(*arguments: str) -> None:
    """Takes an installation of packages that are here, and of extras that adkpg has."""
    assert arguments[0] == "install", arguments
    for argument in arguments[1:]:
        if argument.startswith("-"):
            continue
        wanted = Requirement(argument)
        extras = metadata.metadata(wanted.name).get_all("Provides-Extra") or []
        assert wanted.extras <= set(extras), f"{wanted.name} has no extra {wanted.extras}"


def kubectl(*arguments: str) -> None:
    """Takes manifests that have the form of Kubernetes' own schema."""
    if arguments[0] != "apply":
        return
    import kubernetes_validate  # noqa: PLC0415 # a second and a half, at each command otherwise

    path = Path(arguments[arguments.index("-f") + 1])
    for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


if __name__ == "__main__":
    program, *given = sys.argv[1:]
    globals()[program](*given)
