"""Choice: which events of a session a run of an agent needs. Pure; no I/O.

ADK makes a prompt, a summary and the continuation of a run of the events that a Session holds, and
each of them misses others (`tests/sessions/test_run_history.py` compares with the whole history).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from adkpg.sessions.run_history.outline import Outline

_OVERLAP = 2
"""Invocations before the end of the last summary, for the overlap of the next; or as many as the
last two summaries have in common."""

_Group = list[Outline]


def needed(outlines: Sequence[Outline], *, last: int | None = None) -> _Group:
    """Returns the events that a run needs of a session, in append order, in whole invocations.

    Left out is what no run sees: what a rewind took back, with the rewind; and invocations that
    ended and are summarized, unless something needs them: a response its call, a task its
    delegation, the next summary the overlap, an agent what it said last.

    Args:
      outlines: All events of the session, in append order.
      last: Of a session without any summary: of so many events at its end, and what they need. None
        leaves out nothing of it.
    """
    live = _live(outlines)
    summaries = [each for each in live if each.is_summary]
    groups = _groups(each for each in live if not each.is_summary)
    if any(each.summarized for each in summaries):
        wanted = _unsummarized(groups, summaries) | _overlap(groups, summaries)
    elif last is None:
        return live
    else:
        window = {each.seq for each in outlines[-last:]}
        wanted = {key for key, group in groups.items() if any(one.seq in window for one in group)}
    wanted |= _unfinished(groups, live) | _newest(groups)
    wanted = _with_what_they_need(wanted, groups)
    kept = _kept(summaries)
    return [
        each for each in live if (each.seq in kept if each.is_summary else _key(each) in wanted)
    ]


def _live(outlines: Sequence[Outline]) -> _Group:
    """Returns what no rewind took back, as ADK's ``_apply_rewinds``; without the rewinds."""
    first: dict[str, int] = {}
    for number, each in enumerate(outlines):
        if each.invocation_id:
            first.setdefault(each.invocation_id, number)
    live: _Group = []
    number = len(outlines) - 1
    while number >= 0:
        each = outlines[number]
        if each.rewound is None:
            live.append(each)
        else:
            number = min(first.get(each.rewound, number), number)
        number -= 1
    return live[::-1]


def _key(outline: Outline) -> str | int:
    """An event that belongs to no invocation is one of its own."""
    return outline.invocation_id or outline.seq


def _groups(outlines: Iterable[Outline]) -> dict[str | int, _Group]:
    groups: dict[str | int, _Group] = defaultdict(list)
    for each in outlines:
        groups[_key(each)].append(each)
    return groups


def _kept(summaries: Sequence[Outline]) -> set[int]:
    """Returns the numbers of those that none of their scope contains, and of each scope's last."""
    kept = {each.scope: each.seq for each in summaries}
    numbers = set(kept.values())
    ends: dict[str | None, float] = {}
    ranges = [(*(each.summarized or (0.0, 0.0)), each) for each in summaries]
    for _, end, each in sorted(ranges, key=lambda one: (one[0], -one[1], -one[2].seq)):
        if each.summarized is None or each.branch is not None:
            numbers.add(each.seq)
        elif not end <= ends.get(each.scope, float("-inf")):
            numbers.add(each.seq)
            ends[each.scope] = end
    return numbers


def _unsummarized(groups: dict[str | int, _Group], summaries: Sequence[Outline]) -> set[str | int]:
    """Returns the invocations of which an event is in no summary of its scope.

    A summary of one branch is not seen by all who see what it summarizes. What was said within a
    task that ended nobody sees.
    """
    covered: dict[str | None, list[tuple[float, float]]] = defaultdict(list)
    whole = [each for each in summaries if each.branch is None and each.summarized]
    for each in sorted(whole, key=lambda one: one.summarized or ()):
        _cover(covered[each.scope], *(each.summarized or (0.0, 0.0)))
    done = {each.scope for group in groups.values() for each in group if each.finishes}

    def unsummarized(event: Outline) -> bool:
        if event.scope is not None and event.scope in done:
            return False
        ranges = covered[event.scope]
        place = bisect_right(ranges, event.time, key=lambda one: one[0]) - 1
        return place < 0 or event.time > ranges[place][1]

    return {key for key, group in groups.items() if any(map(unsummarized, group))}


def _cover(covered: list[tuple[float, float]], start: float, end: float) -> None:
    """Adds a range to those that begin before it."""
    if start > end:
        return
    if covered and start <= covered[-1][1]:
        covered[-1] = (covered[-1][0], max(covered[-1][1], end))
    else:
        covered.append((start, end))


def _overlap(groups: dict[str | int, _Group], summaries: Sequence[Outline]) -> set[str | int]:
    """Returns the invocations that the next summary of a sliding window begins with, and all after.

    ADK counts them back from the first invocation that ended after the last summary's range.
    """
    ranges = [each.summarized for each in summaries if each.summarized and each.scope is None]
    if not ranges:
        return set()
    ends = {
        key: max(each.time for each in group if each.scope is None)
        for key, group in groups.items()
        if isinstance(key, str) and any(each.scope is None for each in group)
    }
    order = list(ends)
    end = ranges[-1][1]
    first = next((place for place, key in enumerate(order) if ends[key] > end), len(order))
    common = 0
    if len(ranges) > 1:
        start, before = ranges[-1][0], ranges[-2][1]
        common = sum(start <= ends[key] <= before for key in order)
    window = order[max(0, first - max(_OVERLAP, common)) :]
    if not window:
        return set()
    start = groups[window[0]][0].seq
    return {key for key, group in groups.items() if group[-1].seq >= start}


def _unfinished(groups: dict[str | int, _Group], live: Sequence[Outline]) -> set[str | int]:
    """Returns the invocations that may go on: by an answer, a confirmation, or a resumed run."""
    answered: set[str] = set()
    by_user: set[str] = set()
    for each in live:
        answered.update(each.answers)
        if each.author == "user":
            by_user.update(each.answers)
    done = {each.scope for each in live if each.finishes}
    scopes = {each.scope for each in live if each.scope is not None} - done
    unfinished = set()
    for key, group in groups.items():
        states: dict[tuple[str, str | None], bool] = {}
        for each in group:
            if each.paused or each.ended:
                states[each.author, each.branch] = each.ended
        last = group[-1]
        if (
            last.author == "user"
            or last.calls
            or last.answers
            or not all(states.values())
            or any(
                call not in (by_user if call in each.long_running else answered)
                for each in group
                for call in (*each.calls, *each.long_running)
            )
            or any(each.scope in scopes for each in group)
        ):
            unfinished.add(key)
    return unfinished


def _newest(groups: dict[str | int, _Group]) -> set[str | int]:
    """Returns the last invocation, and the last of each agent: its branch, its tokens, its ids."""
    newest: dict[str, tuple[int, str | int]] = {}
    for key, group in groups.items():
        for each in group:
            for author in (each.author, ""):  # "" stands for anybody
                if author not in newest or newest[author][0] < each.seq:
                    newest[author] = (each.seq, key)
    return {key for _, key in newest.values()}


def _with_what_they_need(wanted: set[str | int], groups: dict[str | int, _Group]) -> set[str | int]:
    """Adds the invocations with the calls of responses, the responses of calls, and delegations."""
    calls: dict[str, set[str | int]] = defaultdict(set)
    answers: dict[str, set[str | int]] = defaultdict(set)
    for key, group in groups.items():
        for each in group:
            for call in each.calls:
                calls[call].add(key)
            for answer in each.answers:
                answers[answer].add(key)
    found: set[str | int] = set()
    missing = set(wanted)
    while missing:
        found |= missing
        further: set[str | int] = set()
        for key in missing:
            for each in groups[key]:
                for answer in each.answers:
                    further |= calls[answer]
                for call in each.calls:
                    further |= answers[call]
                if each.scope is not None:
                    further |= calls[each.scope]
                for part in (each.branch or "").split("."):
                    further |= calls.get(part.partition("@")[2], set())
        missing = further - found
    return found
