"""Tabulation: figures as people read them, in a terminal or a log."""

from collections.abc import Mapping, Sequence

from adkpg.tooling.evaluation.dataset import DataSet
from adkpg.tooling.evaluation.evaluation import Evaluation
from adkpg.tooling.evaluation.figures import BUDGETS, CUTOFFS, FOREIGN, Estimate, Report, Unanswered

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Headings, and rows of as many cells."""

_INTERVAL = "  95 %"


def sentences(data: DataSet) -> list[str]:
    """Returns what was asked, and what was not."""
    held = f"{counted(len(data.stores), 'store')}, {counted(data.turns, 'turn')}, "
    questions = counted(data.questions, "question")
    lines = [f"{data.format}: {held if data.turns else ''}{questions} that something answers."]
    if data.unanswerable:
        lines[0] = lines[0][:-1] + f", {data.unanswerable} that nothing does."
    lines += [
        f"{counted(count, 'question')} skipped: {reason}." for reason, count in data.skipped.items()
    ]
    if data.dropped:
        lines.append(f"{counted(data.dropped, 'name')} of evidence left out: no memory has that.")
    if data.repeated:
        lines.append(
            f"{counted(data.repeated, 'turn')} left out: a later one of the session has that id."
        )
    if data.note:
        lines.append(data.note)
    return lines


def counted(number: int, one: str, many: str = "") -> str:
    """Returns a number of things: ``1 turn``, ``2 turns``."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def tables(evaluation: Evaluation) -> list[Table]:
    """Returns all tables of an evaluation."""
    reports = evaluation.reports
    found = [_recall(reports)]
    if any("session any@5" in report.estimates for report in reports.values()):
        found.append(_sessions(reports))
    found.append(_costs(reports))
    best = list(reports)[-1]
    if len(reports[best].categories) > 1:
        found.append(_categories(best, reports[best]))
    if evaluation.paired:
        found.append(compared("PAIRED", evaluation.paired))
    return found


def compared(title: str, rows: Mapping[str, Mapping[str, Estimate]]) -> Table:
    """Returns a table of differences with their intervals."""
    names = list(dict.fromkeys(name for found in rows.values() for name in found))
    body: list[list[str]] = []
    for row, found in rows.items():
        body.append([row, *(f"{found[n].mean:+.3f}" if n in found else "" for n in names)])
        body.append([_INTERVAL, *(found[n].interval if n in found else "" for n in names)])
    return [title, *map(str.upper, names)], body


def _recall(reports: Mapping[str, Report]) -> Table:
    names = [f"recall@{cutoff}" for cutoff in CUTOFFS] + ["MRR", "NDCG@10"]
    names += ["any@10", "complete@10", "complete@40"]
    return _estimates(reports, names, [name.upper() for name in names])


def _sessions(reports: Mapping[str, Report]) -> Table:
    names = [f"session any@{cutoff}" for cutoff in CUTOFFS]
    names += [f"session complete@{cutoff}" for cutoff in CUTOFFS]
    headings = [f"{kind}@{cutoff}" for kind in ("ANY", "COMPLETE") for cutoff in CUTOFFS]
    return _estimates(reports, names, headings, title="BY SESSION")


def _estimates(
    reports: Mapping[str, Report],
    names: Sequence[str],
    headings: Sequence[str],
    title: str = "RECALL",
) -> Table:
    body: list[list[str]] = []
    for way, report in reports.items():
        found = [report.estimates.get(name) for name in names]
        body.append([way, *(f"{each.mean:.3f}" if each else "" for each in found)])
        body.append([_INTERVAL, *(each.interval if each else "" for each in found)])
    return [title, *headings], body


def _costs(reports: Mapping[str, Report]) -> Table:
    """Returns tokens, hits where nothing answers, and times."""
    headings = [
        "COST",
        *(f"RECALL IN {budget} TOK" for budget in BUDGETS),
        "TOK@10",
        f"FOREIGN HITS OF {FOREIGN}",
        f"UNANSWERABLE OF {FOREIGN}",
        "SEARCH p50/p95 ms",
        "WITH EMBEDDING",
    ]
    body = []
    for way, report in reports.items():
        times = report.latency_ms
        body.append(
            [
                way,
                *(f"{report.estimates[f'recall in {each} tokens'].mean:.3f}" for each in BUDGETS),
                f"{report.estimates['tokens@10'].mean:.0f}",
                _hits(report.foreign),
                _hits(report.unanswerable),
                f"{times['search p50']:.1f} / {times['search p95']:.1f}",
                f"{times['with embedding p50']:.1f} / {times['with embedding p95']:.1f}",
            ]
        )
    return headings, body


def _hits(found: Unanswered | None) -> str:
    return "" if found is None else f"{found.hits:.1f} (none: {found.none:.2f})"


def _categories(way: str, report: Report) -> Table:
    names = [*(f"recall@{cutoff}" for cutoff in CUTOFFS), "complete@40", "MRR"]
    body = [
        [category or "(none)", f"{found['questions']:.0f}", *(f"{found[n]:.3f}" for n in names)]
        for category, found in report.categories.items()
    ]
    return [f"{way.upper()} BY CATEGORY", "QUESTIONS", *map(str.upper, names)], body
