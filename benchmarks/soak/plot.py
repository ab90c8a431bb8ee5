"""The plot of a soak: memory, connections and tables over time, with a line for each fault."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.soak.report import Report

mpl.use("Agg")


def draw(report: Report, path: Path) -> None:
    """Draws what was held, with a line for each fault."""
    minutes = [sample.at_s / 60 for sample in report.samples.taken]
    series = report.samples.series()
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
        for fault in report.faults:
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
