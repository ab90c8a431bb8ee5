"""docs/benchmarks-*.png: one question each, drawn from the report.

Nothing is painted behind them, and their colours stand out from white as from black.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Sheet

from benchmarks.figures import FLOOR, OURS, Figure, Report, find
from benchmarks.page import PLOTS, Plot, number

TEXT = "#78818a"
OURS_COLOUR, ADK_COLOUR, PEER_COLOUR = "#3b82d6", "#d9730d", "#8a8a8a"
WIDTH = 6.0
"""In inches: on a phone, letters of 11 points then have 9 pixels."""

mpl.use("Agg")


def draw(report: Report, docs: Path) -> list[Path]:
    """Draws each question that the report answers; returns the files."""
    paths = []
    for plot in PLOTS:
        figures = [f for f in report.figures if f.suite == plot.suite and f.case == plot.case]
        if figures:
            paths.append(docs / plot.file)
            quality = [f for f in report.figures if f.case == plot.quality]
            with mpl.rc_context({"text.color": TEXT, "font.size": 11}):
                sheet = _sheet(plot, figures, quality)
            sheet.savefig(paths[-1], dpi=150, transparent=True, metadata={"Software": None})
    return paths


def _sheet(plot: Plot, figures: Sequence[Figure], quality: Sequence[Figure]) -> Any:
    names = _contenders(plot, figures, quality)
    height = 1.0 + ((0.45 if quality else 0.36) * len(names) + 0.42) * len(plot.sizes)
    sheet = Sheet(figsize=(WIDTH, height))
    sheet.suptitle(plot.question, x=0.02, ha="left", fontsize=11, fontweight="bold")
    sheet.text(0.02, 1 - 0.45 / height, _explained(plot), fontsize=10)
    panels = sheet.subplots(len(plot.sizes), 1, squeeze=False).flatten()
    for panel, size in zip(panels, plot.sizes, strict=True):
        ours = find(figures, plot.case, size)
        longest = 0.0
        marks = []
        for place, name in enumerate(names):
            figure = find(figures, plot.case, size, name)
            marks.append(name.removeprefix("ADK "))
            if figure is None or figure.p50 is None:
                continue
            longest = max(longest, figure.p50)
            colour = {OURS: OURS_COLOUR, plot.adk: ADK_COLOUR}.get(name, PEER_COLOUR)
            panel.barh(place, figure.p50, height=0.72, color=colour)
            label = f" {number(figure.p50)} {figure.unit}"
            ratio = figure.times(ours)
            if name != OURS and ratio is not None:
                label += f", {ratio:.{0 if ratio >= 10 else 1}f} x adkpg"
            found = find(quality, plot.quality, size, name)
            if found is not None and found.p50 is not None:
                marks[-1] += f"\nfinds {100 * found.p50:.0f} %"
            elif not figure.correct:
                label += ", not correct"
            panel.text(figure.p50, place, label, va="center")
        scale = f"{size}, scale to {number(longest)} {figures[0].unit}"
        panel.set_title(scale, loc="left", fontsize=11, pad=3)
        panel.set_yticks(range(len(names)), marks)
        panel.set_ylim(len(names) - 0.4, -0.6)  # the first on top
        panel.set_xlim(0, longest * 2)  # room for the labels
        panel.set_xticks([])
        panel.tick_params(length=0, colors=TEXT)
        panel.spines["left"].set_color(TEXT)
        for side in ("top", "right", "bottom"):
            panel.spines[side].set_visible(False)
    sheet.tight_layout(rect=(0, 0, 1, 1 - 0.28 / height), h_pad=0.9)
    return sheet


def _explained(plot: Plot) -> str:
    shown = "adkpg, ADK's own" if plot.adk else "adkpg"
    best = "the other package that finds most" if plot.quality else "the fastest other package"
    return f"Median times of {shown}, and {best}"


def _contenders(plot: Plot, figures: Sequence[Figure], quality: Sequence[Figure]) -> list[str]:
    """adkpg, ADK's own, and of the others the one that finds most, then the fastest."""
    others = dict.fromkeys(
        f.contender for f in figures if f.contender not in (OURS, FLOOR, plot.adk)
    )

    def rank(name: str) -> tuple[float, float]:
        found = [find(quality, plot.quality, size, name) for size in plot.sizes]
        took = [find(figures, plot.case, size, name) for size in plot.sizes]
        measured = [f.p50 for f in took if f is not None and f.p50 is not None]
        slowness = sum(measured) if len(measured) == len(plot.sizes) else float("inf")
        return -sum(f.p50 or 0 for f in found if f is not None), slowness

    adk = [plot.adk] if plot.adk else []
    return [OURS, *adk, *sorted(others, key=rank)[:1]]
