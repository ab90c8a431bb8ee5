"""Findings: what an examination says of each thing that it looked at."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failure"]

_ORDER: tuple[Status, ...] = ("ok", "warning", "failure")


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
      check: Its name, which does not change: a script may look for it.
      status: ``ok``; ``warning``: it works, and costs speed, safety or recall; ``failure``:
        something does not work, or is not kept.
      detail: What was found, in one line.
      cure: The command that mends it: of psql if it has a semicolon, else of a shell. None if all
        is well. Several stand one per line.
    """

    check: str
    status: Status
    detail: str
    cure: str | None = None


@dataclass(frozen=True)
class Examination:
    """What was found in a database.

    Attributes:
      findings: One of each check, in the order in which to mend.
    """

    findings: tuple[Finding, ...]

    @property
    def status(self) -> Status:
        """The worst of all."""
        return max((each.status for each in self.findings), key=_ORDER.index, default="ok")


class Verdict:
    """Gathers what a check finds: the worst status, and every ill with its cure.

    Args:
      check: The check's name.
    """

    def __init__(self, check: str) -> None:
        self._check = check
        self._status: Status = "ok"
        self._ills: list[str] = []
        self._cures: list[str] = []

    def add(self, status: Status, ill: str, cure: str) -> None:
        """Adds something that is not well; the same cure is named once."""
        self._status = max(self._status, status, key=_ORDER.index)
        self._ills.append(ill)
        if cure not in self._cures:
            self._cures.append(cure)

    def finding(self, well: str) -> Finding:
        """Returns the finding; `well` is what there is to say if all is well."""
        if not self._ills:
            return Finding(self._check, "ok", well)
        return Finding(self._check, self._status, "; ".join(self._ills), "\n".join(self._cures))
