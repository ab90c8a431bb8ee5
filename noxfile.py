"""The suite on the versions that pyproject.toml says are supported: `make test-versions`.

A version that cannot be had here is named at the end, as skipped, with the reason.
"""

import os
import re
import tempfile
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv"
nox.options.download_python = "auto"
nox.options.stop_on_first_error = False

PYTEST = ("python", "-m", "pytest", "-n", "auto", "--maxprocesses", "8")


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """The lower ends: the oldest google-adk, and the oldest of everything else that is named."""
    session.install("--resolution", "lowest-direct", "-e", ".[all,testing]", "--group", "dev")
    _run(session)


@nox.session(python=["3.11", "3.12", "3.13"])
def newest(session: nox.Session) -> None:
    """The upper ends: what constraints.txt pins, on each Python."""
    session.install("--no-deps", "--require-hashes", "-r", "constraints.txt")
    session.install("--no-deps", "--no-build-isolation", "-e", ".")
    _run(session)


@nox.session(python="3.11")
def wheel(session: nox.Session) -> None:
    """The wheel, on the oldest of what it asks for, in a folder of a user's: README's program."""
    checkout, place = Path.cwd(), Path(session.create_tmp()).resolve()
    (program,) = re.findall(
        r"as\s`first\.py`.*?```python\n(.*?)```", (checkout / "README.md").read_text(), re.DOTALL
    )
    (place / "first.py").write_text(program)
    session.run("uv", "build", "--quiet", "--wheel", "--clear", "--out-dir", str(place / "dist"))
    (built,) = (place / "dist").glob("*.whl")
    pins, extras = str(place / "oldest.txt"), ("--extra", "local", "--extra", "embedded")
    compiled = ("--quiet", "--resolution", "lowest-direct", *extras, "--output-file", pins)
    session.run("uv", "pip", "compile", *compiled, "pyproject.toml", silent=True)
    session.install("-r", pins, f"adkpg[local,embedded] @ {built.as_uri()}")
    session.chdir(place)
    with tempfile.TemporaryDirectory(prefix="adkpg-", dir="/tmp") as server:  # open to an account
        variables = {"ADKPG_DATABASE_URL": "embedded", "ADKPG_EMBEDDED_DIR": server}
        found = session.run("python", "first.py", env=variables, silent=True)
        if "I always travel by train" not in str(found):
            session.error(f"first.py found something else: {found}")
        session.run("adkpg", "db", "check", env=variables)


@nox.session(python=False)
def postgres(session: nox.Session) -> None:
    """Other versions of Postgres than the 18 of the rest: each whose programs are here."""
    named = os.environ.get("POSTGRES_BIN")
    found = [Path(named)] if named else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if named and not (found[0] / "initdb").exists():
        session.error(f"{named} has no initdb: name the folder of a Postgres with pgvector.")
    if not found:
        session.skip(
            "no other Postgres is here: apt-get install postgresql-17-pgvector, or name the "
            "folder of one with POSTGRES_BIN=/path/to/bin"
        )
    for folder in found:
        session.log(f"The Postgres of {folder}")
        session.run(
            ".venv/bin/python",
            *PYTEST[1:],
            *("-m", "server and not newest"),
            *session.posargs,
            env={"ADKPG_TEST_POSTGRES_BIN": str(folder)},
        )


def _run(session: nox.Session) -> None:
    version = (
        "import google.adk as adk, sys; print('google-adk', adk.__version__, 'on', sys.version)"
    )
    session.run("python", "-c", version)
    session.run(*PYTEST, *session.posargs)
