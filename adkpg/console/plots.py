"""Plots: the places of columns and bars in a drawing. Pure; templates draw them as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

_HEIGHT = 100.0
_STEP = 12.0
_WIDTH = 9.0


@dataclass(frozen=True)
class Column:
    """One column of a plot.

    Attributes:
      x: From the left.
      y: From the top.
      width: Of all columns the same.
      height: What it says.
      value: The number.
      label: Under it.
      place: Where the pointer finds it: all of its height.
    """

    x: float
    y: float
    width: float
    height: float
    value: int
    label: str
    place: float


@dataclass(frozen=True)
class Plot:
    """Columns side by side, the highest as high as the drawing.

    Attributes:
      columns: From left to right.
      width: Of the drawing.
      height: Of the drawing.
      most: The largest number.
      total: All together.
    """

    columns: tuple[Column, ...]
    width: float
    height: float
    most: int
    total: int


def columns(values: Sequence[tuple[str, int]]) -> Plot:
    """Returns a plot of numbers, each with its label."""
    most = max((value for _, value in values), default=0)
    drawn = []
    for place, (label, value) in enumerate(values):
        # What is there at all is seen.
        height = max(_HEIGHT * value / most, 2.0) if value else 0.0
        x = place * _STEP + (_STEP - _WIDTH) / 2
        drawn.append(
            Column(
                round(x, 2),
                round(_HEIGHT - height, 2),
                _WIDTH,
                round(height, 2),
                value,
                label,
                round(place * _STEP, 2),
            )
        )
    total = sum(value for _, value in values)
    return Plot(tuple(drawn), max(len(values), 1) * _STEP, _HEIGHT, most, total)


def share(value: float, most: float) -> float:
    """Returns how much of a bar a value fills, from 0 to 100."""
    if most <= 0 or value <= 0:
        return 0.0
    return round(min(100.0 * value / most, 100.0), 2)
