"""docs/scale.svg: what calls cost as the database grows, readable on a light and on a dark page.

Nothing is painted behind it, and its colours stand out from white as from black.
"""

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.plots import TEXT

PANELS = {
    "What an agent or a person waits for": {
        "hybrid search": "#d9730d",
        "vector search": "#3b82d6",
        "append that remembers": "#8f63d2",
        "get of 20 events": "#1f9d6b",
        "append": "#d0477f",
    },
    "What looks at everything": {
        "stats --exact": "#d9730d",
        "doctor": "#3b82d6",
        "prune of all by age": "#1f9d6b",
        "page of users whose id has a part": "#d0477f",
    },
}
NEXT_TO_EACH_OTHER = 0.062  # of the height that a label needs

mpl.use("Agg")


def draw(report: dict[str, Any], path: Path) -> None:
    """Draws the figures of docs/scale.json."""
    columns = sorted(report, key=int)
    with mpl.rc_context({"text.color": TEXT, "svg.hashsalt": "adkpg", "font.size": 10.5}):
        sheet = Figure(figsize=(7.2, 7.6), layout="constrained")
        for panel, (title, names) in zip(sheet.subplots(2, 1), PANELS.items(), strict=True):
            lines = {
                colour: (name, [report[column]["ms"].get(name) for column in columns])
                for name, colour in names.items()
            }
            _panel(panel, title, columns, lines)
        sheet.supxlabel(
            "million memories in the database; the user has 1,000\n"
            "Solid: half of the calls take less. Dotted: the fastest.",
            fontsize=10,
        )
        sheet.savefig(path, transparent=True, metadata={"Date": None})


def _panel(panel: Any, title: str, columns: list[str], lines: dict[str, Any]) -> None:
    sizes = [int(column) for column in columns]
    ends = []
    for colour, (name, cells) in lines.items():
        known = [(size, cell) for size, cell in zip(sizes, cells, strict=True) if cell]
        if not known:
            continue
        at = [size for size, _ in known]
        middle = [cell["p50"] for _, cell in known]
        panel.plot(at, middle, color=colour, marker="o", linewidth=2)
        panel.plot(at, [cell["least"] for _, cell in known], color=colour, linestyle=":")
        ends.append((middle[-1], f"{name}: {_ms(middle[-1])}", colour))
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(sizes[0] * 0.85, sizes[-1] * 1.1)
    panel.set_xticks(sizes, [f"{size / 1e6:g}" for size in sizes])
    low, high = panel.get_ylim()
    steps = [f * 10**e for e in range(-2, 7) for f in (1, 3) if low <= f * 10**e <= high]
    panel.set_yticks(steps, [_ms(step) for step in steps])
    panel.minorticks_off()
    panel.grid(axis="y", color=TEXT, alpha=0.25, linewidth=0.8)
    panel.set_title(title, loc="left", fontweight="bold", color=TEXT)
    panel.tick_params(colors=TEXT, length=0)
    for side, spine in panel.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(TEXT)
    span = math.log(high / low)
    below = -math.inf
    for value, label, colour in sorted(ends):
        # As high as the line ends, but above the label below it.
        below = max(math.log(value / low) / span, below + NEXT_TO_EACH_OTHER)
        panel.text(1.02, below, label, color=colour, va="center", transform=panel.transAxes)


def _ms(value: float) -> str:
    if value >= 1_000:
        return f"{value / 1_000:.3g} s"
    return f"{value:.2g} ms" if value < 10 else f"{value:.0f} ms"
