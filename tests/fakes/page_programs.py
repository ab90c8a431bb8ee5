"""What stands in for programs that the documentation names and a test cannot run.

``python -m tests.fakes.page_programs pip install 'adkpg[local]'`` ends with 0 if that makes sense.
"""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import kubernetes_validate
import yaml
from packaging.requirements import Requirement


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
    path = Path(arguments[arguments.index("-f") + 1])
    for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def git(*arguments: str) -> None:
    """Makes the folder that a clone would be in."""
    if arguments[0] == "clone":
        Path(arguments[1].rsplit("/", 1)[-1]).mkdir(exist_ok=True)


def adkpg(*arguments: str) -> int:
    """Is the real command; the doctor may say that the tests' server is quick and unsafe."""
    code = subprocess.run([sys.executable, "-m", "adkpg", *arguments], check=False).returncode
    return 0 if arguments[:1] == ("doctor",) and code == 1 else code


if __name__ == "__main__":
    program, *given = sys.argv[1:]
    standing_in = globals().get(program)
    sys.exit(standing_in(*given) if standing_in else 0)
