"""The report of a soak: what was done, what was found, and what grew."""

import platform
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.soak.faults import Fault
from benchmarks.soak.history import History
from benchmarks.soak.samples import Samples, growth, hot_share, thirds

MOST_GROWTH = 0.05
SHORTEST_MIN = 10
_FEW_CONNECTIONS = 2  # a pool opens them as its tasks happen to meet
_FLAT = ("connections", "all tables (MB)")


@dataclass
class Report:
    """One soak.

    Attributes:
      minutes: How long the load lasted.
      history: What the clients did.
      samples: What was held meanwhile.
      faults: What was done to them.
      violations: What must not be, one sentence each.
    """

    minutes: float
    history: History
    samples: Samples
    faults: Sequence[Fault]
    violations: list[str]

    @property
    def hollow(self) -> str | None:
        """Why the run shows nothing, if it does not."""
        if not self._acknowledged:
            return "nothing was appended"
        if not any(fault.hit for fault in self.faults):
            return "no fault hit anything"
        return None

    @property
    def grown(self) -> list[str]:
        """What is not flat: the tables together, the connections, the memory of any process.

        Nothing of a run that is shorter than it takes to fill the tables.
        """
        if self.minutes < SHORTEST_MIN:
            return []
        return [
            f"{name} grew by {100 * grows:.1f} % over the last two thirds"
            for name, values in self.samples.series().items()
            if (name in _FLAT or name.startswith("memory of"))
            and (grows := growth(values)) >= MOST_GROWTH
            and not (name == "connections" and _rise(values) <= _FEW_CONNECTIONS)
        ]

    @property
    def failures(self) -> list[str]:
        """Everything for which the run fails."""
        errors = [f"{n} x {name} reached a caller" for name, n in self.history.errors.items()]
        hollow = [f"hollow: {self.hollow}"] if self.hollow else []
        return [*hollow, *self.violations, *errors, *self.grown]

    @property
    def _acknowledged(self) -> int:
        return sum(
            append.ended is not None
            for session in self.history.sessions.values()
            for append in session.appends.values()
        )

    def text(self) -> str:
        """Returns the page."""
        sessions = self.history.sessions.values()
        rows: list[tuple[str, object]] = [
            ("minutes of load", f"{self.minutes:g}"),
            (
                "faults; those that hit",
                f"{len(self.faults)}; {sum(f.hit > 0 for f in self.faults)}",
            ),
            ("appends acknowledged", self._acknowledged),
            ("sessions", len(sessions)),
            ("reads that were checked", sum(len(session.reads) for session in sessions)),
            ("searches, ingests", f"{self.history.searches}, {self.history.ingests}"),
            ("errors that reached a caller", sum(self.history.errors.values())),
            ("longest call", f"{self.history.slowest_s:.1f} s"),
            ("HOT updates of sessions", f"{100 * hot_share(self.samples, 'sessions'):.1f} %"),
            ("violations", len(self.violations)),
        ]
        machine = f"{platform.system()} {platform.release()}, {platform.machine()}"
        lines = ["# Soak", "", f"On {machine}.", "", "| | |", "|---|---:|"]
        lines += [f"| {name} | {value} |" for name, value in rows]
        lines += ["", "| fault | times | hit | back after, at most |", "|---|---:|---:|---:|"]
        by_kind = defaultdict(list)
        for fault in self.faults:
            by_kind[fault.kind].append(fault)
        for kind, faults in sorted(by_kind.items()):
            longest = max(fault.took_s for fault in faults)
            hit = sum(fault.hit > 0 for fault in faults)
            lines.append(f"| {kind} | {len(faults)} | {hit} | {longest:.1f} s |")
        lines += ["", "| held | at the end | growth, last third over second |", "|---|---:|---:|"]
        for name, values in self.samples.series().items():
            lines.append(f"| {name} | {values[-1]:.1f} | {100 * growth(values):+.1f} % |")
        failures = self.failures
        if self.minutes < SHORTEST_MIN:
            lines += ["", f"Growth is judged from {SHORTEST_MIN} minutes on."]
        lines += ["", "Failed:" if failures else "All invariants held.", ""]
        lines += [f"* {failure}" for failure in failures[:50]]
        return "\n".join(lines) + "\n"


def _rise(values: Sequence[float]) -> float:
    middle, last = thirds(values)
    return last - middle
