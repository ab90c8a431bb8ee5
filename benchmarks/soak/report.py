"""The report of a soak: what was done, what was found, and what grew, as a page and a plot."""

import platform
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.soak.faults import Fault
from benchmarks.soak.history import History
from benchmarks.soak.samples import Samples, growth, hot_share

mpl.use("Agg")

MOST_GROWTH = 0.05
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
        """What is not flat: the tables together, the connections, the memory of any process."""
        return [
            f"{name} grew by {100 * grows:.1f} % over the last two thirds"
            for name, values in self.samples.series().items()
            if (name in _FLAT or name.startswith("memory of"))
            and (grows := growth(values)) >= MOST_GROWTH
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
        lines = ["# Soak", "", f"On {platform.platform()}.", "", "| | |", "|---|---:|"]
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
        lines += ["", "Failed:" if failures else "All invariants held.", ""]
        lines += [f"* {failure}" for failure in failures[:50]]
        return "\n".join(lines) + "\n"

    def draw(self, path: Path) -> None:
        """Draws what was held, with a line for each fault."""
        minutes = [sample.at_s / 60 for sample in self.samples.taken]
        series = self.samples.series()
        memory = {
            name.removeprefix("memory of the ").removesuffix(" (MB)"): values
            for name, values in series.items()
            if name.startswith("memory of")
        }
        tables = {
            name.removesuffix(" (MB)"): values
            for name, values in series.items()
            if name.endswith("(MB)") and not name.startswith("memory of")
        }
        sheet = Figure(figsize=(8.4, 8.0), layout="constrained")
        sheet.suptitle("Does anything grow under load and faults?", fontweight="bold")
        panels = sheet.subplots(3, 1, sharex=True)
        for panel, title, lines in (
            (panels[0], "memory of clients, MB", memory),
            (panels[1], "connections", {"connections": series["connections"]}),
            (panels[2], "tables with their indexes, MB", tables),
        ):
            for fault in self.faults:
                panel.axvline(fault.at_s / 60, color="#d95f02", alpha=0.25, linewidth=1)
            for name, values in lines.items():
                panel.plot(minutes, values, label=name, linewidth=1.4)
            panel.set_title(title, loc="left", fontsize=10, color="#444444")
            panel.set_ylim(bottom=0)
            if len(lines) > 1:
                panel.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
            panel.spines[["top", "right"]].set_visible(False)
        panels[2].set_xlabel("minutes; each vertical line is a fault")
        sheet.savefig(path, dpi=120, metadata={"Software": None})
