"""What the benchmarks report: figures, bars, and the JSON file that keeps them. Files only.

A suite measures and returns `Figure`s and `Bar`s; `Report.merge` adds them to those of the
other suites; `page.py` writes the page and its plots from the file alone.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

OURS = "adkpg"
"""The contender that the others are compared with."""

FLOOR = "floor"
"""The contender that does the least that must be done, without any package."""


@dataclass(frozen=True)
class Figure:
    """What one contender did in one case at one size.

    Attributes:
      suite: ``"sessions"`` or ``"memory"``.
      case: What was done, such as ``"append"``.
      size: How much of it, such as ``"16 writers"``; ``""`` if the case has one size.
      contender: Who did it; `OURS` and `FLOOR` are known to the page.
      version: The contender's package version, ``""`` for the floor.
      unit: Of p50 and p95: ``"ms"``; also ``"recall"`` or ``"bytes"`` for what is no time.
      p50: The median over all blocks; None if the contender cannot do it, or only a rate counts.
      p95: The 95th percentile over all blocks, or None.
      rate: Operations per second, the median over all blocks, or None.
      samples: How many were measured.
      correct: Whether everything that was written was found again, whole and in order.
      note: What a reader must know, one sentence or none.
    """

    suite: str
    case: str
    size: str
    contender: str
    version: str
    unit: str
    p50: float | None
    p95: float | None
    rate: float | None
    samples: int
    correct: bool
    note: str = ""

    def times(self, ours: "Figure | None") -> float | None:
        """How many times as good `ours` is: by p50 if both have one, else by rate.

        Above 1 `ours` is faster; None if there is nothing to compare.
        """
        if ours is None:
            return None
        if self.p50 is not None and ours.p50:
            return self.p50 / ours.p50
        if self.rate and ours.rate is not None:
            return ours.rate / self.rate
        return None


@dataclass(frozen=True)
class Bar:
    """A promise about a case, and whether it was kept.

    Attributes:
      suite: As in `Figure`.
      case: As in `Figure`.
      size: As in `Figure`.
      rule: In words, such as ``"at least 5 times faster than ADK"``.
      value: What was measured, in the rule's terms; NaN if it could not be.
      target: What the rule asks for.
      holds: Whether `value` meets `target`.
    """

    suite: str
    case: str
    size: str
    rule: str
    value: float
    target: float
    holds: bool

    @classmethod
    def of(
        cls,
        suite: str,
        case: str,
        size: str,
        rule: str,
        value: float | None,
        direction: Literal[">=", "<="],
        target: float,
    ) -> Self:
        """A bar that holds if the value is on the right side of the target; None is missed."""
        measured = math.nan if value is None else value
        holds = measured >= target if direction == ">=" else measured <= target
        return cls(suite, case, size, rule, measured, target, holds)


@dataclass(frozen=True)
class Header:
    """Where and with what a suite ran.

    Attributes:
      date: UTC, ISO 8601, to the minute.
      machine: Architecture, as ``x86_64``.
      cpu: The processor's name.
      cores: Those this process may use.
      ram_gb: Memory of the machine.
      os: The operating system and its kernel.
      python: The interpreter's version.
      postgres: The server's version.
      pgvector: The extension's version, ``""`` if the server has none.
      durability: The server's ``fsync`` and ``synchronous_commit``.
      packages: Versions by distribution name.
    """

    date: str
    machine: str
    cpu: str
    cores: int
    ram_gb: float
    os: str
    python: str
    postgres: str
    pgvector: str
    durability: str
    packages: dict[str, str]


@dataclass(frozen=True)
class Report:
    """All suites' results.

    Attributes:
      headers: By suite, since each may have been run alone.
      figures: In the order measured.
      bars: In the order of the promises.
    """

    headers: dict[str, Header]
    figures: tuple[Figure, ...]
    bars: tuple[Bar, ...]

    @classmethod
    def empty(cls) -> Self:
        """A report of no suite."""
        return cls({}, (), ())

    @classmethod
    def read(cls, path: Path) -> Self:
        """The report that `write` wrote; an empty one if there is no such file.

        Raises:
          ValueError: The file holds something else.
        """
        if not path.exists():
            return cls.empty()
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                {suite: Header(**header) for suite, header in document["headers"].items()},
                tuple(Figure(**figure) for figure in document["figures"]),
                tuple(
                    Bar(**{**bar, "value": math.nan if bar["value"] is None else bar["value"]})
                    for bar in document["bars"]
                ),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ValueError(f"{path} is no report; name a file that --json wrote.") from exc

    def write(self, path: Path) -> None:
        """Writes the report as JSON, one figure a line, so that a diff shows what changed."""
        bars = [asdict(bar) | {"value": _number(bar.value)} for bar in self.bars]
        parts = {
            "headers": json.dumps(
                {suite: asdict(header) for suite, header in sorted(self.headers.items())},
                indent=2,
                ensure_ascii=False,
            ),
            "figures": _lines([asdict(figure) for figure in self.figures]),
            "bars": _lines(bars),
        }
        text = ",\n".join(f'"{name}": {part}' for name, part in parts.items())
        path.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")

    def merge(
        self, suite: str, header: Header, figures: Iterable[Figure], bars: Iterable[Bar]
    ) -> "Report":
        """This report with a suite's results in place of those it had."""
        return Report(
            {**self.headers, suite: header},
            (*(figure for figure in self.figures if figure.suite != suite), *figures),
            (*(bar for bar in self.bars if bar.suite != suite), *bars),
        )


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of at least one value lies, interpolated as NumPy does."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def find(figures: Iterable[Figure], case: str, size: str, contender: str = OURS) -> Figure | None:
    """The figure of a contender in a case, or None."""
    wanted = (case, size, contender)
    for figure in figures:
        if (figure.case, figure.size, figure.contender) == wanted:
            return figure
    return None


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON has no NaN


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "[]"
    return "[\n" + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows) + "\n]"
