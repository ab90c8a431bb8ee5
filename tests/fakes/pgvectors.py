"""Packages of pgvector, as a server of Postgres 18 finds them in a folder of its own."""

import re
from pathlib import Path

from adkpg.embedded.binaries import Binaries

_CONTROL = """\
comment = 'vector data type and ivfflat and hnsw access methods'
default_version = '{version}'
module_pathname = '$libdir/vector'
relocatable = true
"""


class Package:
    """What a server may create; for `extension_control_path`, which then hides its own.

    The SQL is pgvector's; its library is the wheel's, also for older versions.

    Args:
      place: A folder, which every account may read from then on.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self._folder = place / "extension"
        self._folder.mkdir()
        for each in (place, self._folder):
            each.chmod(0o755)
        self._own = Binaries.find().root / "share" / "extension"

    def install(self, version: str) -> None:
        """Brings a version, and the ways to it, beside what an earlier one brought."""
        scripts = {self._folder / f"vector--{version}.sql": self._script(version)}
        for update in self._own.glob("vector--*--*.sql"):
            scripts[self._folder / update.name] = update.read_text()
        scripts[self._folder / "vector.control"] = _CONTROL.format(version=version)
        for path, text in scripts.items():
            path.write_text(text)
            path.chmod(0o644)

    def _script(self, version: str) -> str:
        """The newest one's SQL, without what came after a version."""
        (newest,) = (path for path in self._own.glob("vector--*.sql") if path.name.count("--") == 1)
        text = newest.read_text()
        for update in self._own.glob("vector--*--*.sql"):
            if _numbers(update.stem.split("--")[1]) >= _numbers(version):
                for added in re.findall(
                    r"^CREATE .*?;", update.read_text(), re.DOTALL | re.MULTILINE
                ):
                    assert text.count(added) == 1, added
                    text = text.replace(added, "")
        return text


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
