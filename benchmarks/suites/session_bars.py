"""What adkpg promises of sessions, held against the figures of one run. Pure."""

from collections.abc import Sequence
from typing import Literal

from benchmarks.figures import FLOOR, OURS, Bar, Figure, find
from benchmarks.suites.session_reading import AGAIN, COPIED, GET, KEPT, LIST, events_size
from benchmarks.suites.session_stage import SUITE
from benchmarks.suites.session_writing import APPEND, BYTES, DELAYS, PROCESSES, SHARED, STATES, TURN

ADK, SQLSPEC = "ADK", "sqlspec"


def bars(figures: Sequence[Figure]) -> list[Bar]:
    """Returns the bars whose cases were measured."""
    known = _Known(figures)
    sixteen = "16 writers"
    known.ratio(APPEND, "1 writer", ADK, OURS, ">=", 5, "at least 5 times faster than ADK")
    known.ratio(APPEND, "1 writer", SQLSPEC, OURS, ">=", 2, "at least 2 times faster than sqlspec")
    known.ratio(APPEND, "1 writer", OURS, FLOOR, "<=", 1.7, "at most 1.7 times the floor")
    known.rate(APPEND, sixteen, 8, "at least 8 times as many a second as ADK")
    for size in dict.fromkeys(figure.size for figure in figures if figure.case == SHARED):
        known.whole(SHARED, size)
        known.rate(SHARED, size, 50, "at least 50 times as many a second as ADK")
    for size in dict.fromkeys(figure.size for figure in figures if figure.case == PROCESSES):
        known.whole(PROCESSES, size)
    known.ratio(TURN, DELAYS[1], ADK, OURS, ">=", 6, "at least 6 times faster than ADK")
    size = events_size(300)
    known.ratio(GET, size, OURS, FLOOR, "<=", 1.25, "at most 1.25 times the floor")
    known.ratio(GET, size, ADK, OURS, ">=", 1.3, "at least 1.3 times faster than ADK")
    for size in dict.fromkeys(figure.size for figure in figures if figure.case == AGAIN):
        rule = "with shared events, at most 0.2 times the full get"
        known.ratio(AGAIN, size, KEPT, OURS, "<=", 0.2, rule)
        rule = "with shared events that the caller copies, at most 0.7 times the full get"
        known.ratio(AGAIN, size, COPIED, OURS, "<=", 0.7, rule)
    known.bytes()
    for size in dict.fromkeys(figure.size for figure in figures if figure.case == LIST):
        known.milliseconds(LIST, size, 5)
    return known.bars


class _Known:
    def __init__(self, figures: Sequence[Figure]) -> None:
        self._figures = figures
        self.bars: list[Bar] = []

    def ratio(
        self,
        case: str,
        size: str,
        over: str,
        under: str,
        direction: Literal[">=", "<="],
        target: float,
        rule: str,
    ) -> None:
        """By the p50 of one over another's."""
        first, second = (find(self._figures, case, size, name) for name in (over, under))
        if first is None or second is None:
            return
        self._add(case, size, rule, _quotient(first.p50, second.p50), direction, target)

    def rate(self, case: str, size: str, target: float, rule: str) -> None:
        """By our rate over ADK's."""
        ours, theirs = find(self._figures, case, size), find(self._figures, case, size, ADK)
        if ours is not None and theirs is not None:
            self._add(case, size, rule, _quotient(ours.rate, theirs.rate), ">=", target)

    def whole(self, case: str, size: str) -> None:
        """That nothing is lost and nothing refused."""
        ours = find(self._figures, case, size)
        if ours is not None:
            clean = float(ours.correct and "refused" not in ours.note)
            self._add(case, size, "nothing lost, no error (1 is yes)", clean, ">=", 1)

    def bytes(self) -> None:
        """That the state stays on the server."""
        sizes = [find(self._figures, BYTES, size) for size in STATES]
        if any(figure is None for figure in sizes):
            return
        empty, large = (figure.p50 if figure else None for figure in sizes)
        more = None if empty is None or large is None else large - empty
        rule = "at most 100 bytes more than with an empty state: it is neither sent nor received"
        self._add(BYTES, STATES[1], rule, more, "<=", 100)

    def milliseconds(self, case: str, size: str, most: float) -> None:
        """By our p50."""
        ours = find(self._figures, case, size)
        if ours is not None:
            self._add(case, size, f"p50 of at most {most:g} ms", ours.p50, "<=", most)

    def _add(
        self,
        case: str,
        size: str,
        rule: str,
        value: float | None,
        direction: Literal[">=", "<="],
        target: float,
    ) -> None:
        self.bars.append(Bar.of(SUITE, case, size, rule, value, direction, target))


def _quotient(over: float | None, under: float | None) -> float | None:
    return over / under if over is not None and under else None
