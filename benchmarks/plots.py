"""docs/benchmarks-*.png: a panel for each case, drawn from the report."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Sheet
from matplotlib.patches import Patch

from benchmarks.figures import FLOOR, OURS, Figure, Report
from benchmarks.page import number

COLUMNS = 2
COLOURS = ("#d95f02", "#7570b3", "#1b9e77", "#e7298a", "#a6761d", "#66a61e", "#1f78b4", "#b2df8a")
OURS_COLOUR, FLOOR_COLOUR = "#0b3d91", "#b8b8b8"

mpl.use("Agg")


def draw(report: Report, docs: Path) -> list[Path]:
    """Draws each suite of a report as ``benchmarks-<suite>.png``; returns the files.

    A bar is a contender's p50, or its rate where only that counts; hatched if it was not correct.
    Axes are logarithmic: sizes differ by a thousand, contenders by a hundred.
    """
    paths = []
    for suite in report.headers:
        figures = [f for f in report.figures if f.suite == suite and _value(f) is not None]
        if figures:
            paths.append(docs / f"benchmarks-{suite}.png")
            _sheet(figures).savefig(paths[-1], dpi=110, metadata={"Software": None})
    return paths


def _value(figure: Figure) -> float | None:
    return figure.p50 if figure.p50 is not None else figure.rate


def _positive(figure: Figure) -> float:
    return max(_value(figure) or 0, 1e-3)  # what a logarithmic axis can show


def _sheet(figures: Sequence[Figure]) -> Any:
    cases = list(dict.fromkeys(figure.case for figure in figures))
    rows = -(-len(cases) // COLUMNS)
    sheet = Sheet(figsize=(6 * COLUMNS, 2.6 * rows + 0.9), layout="constrained")
    colours = _colours(figures)
    panels = sheet.subplots(rows, COLUMNS, squeeze=False).flatten()
    for panel, case in zip(panels, cases, strict=False):
        _panel(panel, case, [figure for figure in figures if figure.case == case], colours)
    for panel in panels[len(cases) :]:
        panel.set_visible(False)
    handles = [Patch(color=colour, label=name) for name, colour in colours.items()]
    handles.append(Patch(facecolor="white", edgecolor="black", hatch="////", label="not correct"))
    sheet.legend(handles=handles, loc="outside upper center", ncols=6, fontsize=8, frameon=False)
    return sheet


def _colours(figures: Sequence[Figure]) -> dict[str, str]:
    known = {OURS: OURS_COLOUR, FLOOR: FLOOR_COLOUR}
    names = dict.fromkeys(figure.contender for figure in figures)
    others = (name for name in names if name not in known)
    colours = known | {n: COLOURS[place % len(COLOURS)] for place, n in enumerate(others)}
    return {name: colours[name] for name in names}


def _panel(panel: Any, case: str, figures: Sequence[Figure], colours: dict[str, str]) -> None:
    sizes = list(dict.fromkeys(figure.size for figure in figures))
    names = [n for n in colours if any(figure.contender == n for figure in figures)]
    width = 0.85 / len(names)
    for figure in figures:
        value = _value(figure)
        place = sizes.index(figure.size) + (names.index(figure.contender) + 0.5) * width - 0.425
        panel.bar(
            place,
            value,
            width * 0.92,
            color=colours[figure.contender],
            hatch=None if figure.correct else "////",
            edgecolor="white",
            linewidth=0,
        )
        panel.annotate(
            number(value),
            (place, value),
            xytext=(0, 1),
            textcoords="offset points",
            ha="center",
            fontsize=6,
        )
    unit = figures[0].unit if figures[0].p50 is not None else "per s, higher is better"
    panel.set_title(f"{case} ({unit})", fontsize=9, loc="left")
    panel.set_xticks(range(len(sizes)), sizes, fontsize=7)
    panel.tick_params(axis="y", labelsize=7)
    if figures[0].unit != "recall":
        panel.set_yscale("log")
        least, most = (end(map(_positive, figures)) for end in (min, max))
        panel.set_ylim(10 ** math.floor(math.log10(least) - 0.15), most * 2)
        panel.yaxis.set_major_formatter(lambda value, _place: f"{value:,g}")
        panel.yaxis.set_minor_formatter(lambda _value, _place: "")
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
