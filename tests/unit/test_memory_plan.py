"""What an ingest changes: plans over any stored session, any given events, any tombstones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from adkpg.keys import APP_WIDE
from adkpg.memory.drafts import Draft
from adkpg.memory.write import plan as plans
from adkpg.memory.write.plan import Plan, Stored

BLOCK = 1 << 40
NAMES = "abcdefgh"


def draft(event_id: str, version: int = 0) -> Draft:
    return Draft(
        memory_id=f"new-{event_id}",
        kind="turn",
        session_id="s",
        event_id=event_id,
        invocation_id=None,
        author=None,
        timestamp=datetime(2026, 1, 31, tzinfo=UTC),
        content="{}",
        body=event_id,
        custom_metadata=None,
        source=None,
        artifacts=None,
        topics="[]",
        importance=0.5,
        expires_at=None,
        digest=f"{event_id}{version}",
    )


def stored(event_id: str, position: int, version: int = 0, *, in_session: bool = True) -> Stored:
    return Stored(event_id, position, f"old-{event_id}", f"{event_id}{version}", in_session)


def session(names: str, **fields: bool) -> list[Stored]:
    return [stored(name, place, **fields) for place, name in enumerate(names)]


def drafts(names: str) -> list[Draft]:
    return [draft(name) for name in names]


def applied(rows: Sequence[Stored], plan: Plan) -> list[Stored]:
    """The session after a plan, as the database would have it; fails where it would refuse."""
    at = {row.position: row for row in rows}
    for position in plan.delete:
        del at[position]
    froms = [position for position, _ in plan.move]
    moved = [(to, at.pop(position)) for position, to in plan.move]
    assert len(set(froms)) == len(froms)
    for to, row in moved:
        assert to not in at
        at[to] = Stored(row.event_id, to, row.memory_id, row.digest, row.in_session)
    for position, new in plan.rewrite:
        row = at[position]
        assert (row.event_id, row.memory_id) == (new.event_id, new.memory_id)
        at[position] = Stored(row.event_id, position, row.memory_id, new.digest, row.in_session)
    for position, new in plan.insert:
        assert position not in at
        assert new.event_id is not None
        at[position] = Stored(new.event_id, position, new.memory_id, new.digest, True)
    result = [at[position] for position in sorted(at)]
    assert len({row.event_id for row in result}) == len(result)
    assert len({row.memory_id for row in result}) == len(result)
    return result


def names(rows: Sequence[Stored]) -> str:
    return "".join(row.event_id for row in rows)


@dataclass(frozen=True)
class Case:
    rows: list[Stored]
    drafts: list[Draft]
    deleted: set[str]


versions = st.integers(0, 1)
unique_names = st.lists(st.sampled_from(NAMES), unique=True)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    held = draw(unique_names)
    gaps = draw(st.lists(st.integers(1, 3), min_size=len(held), max_size=len(held)))
    rows, position = [], 0
    for name, gap in zip(held, gaps, strict=True):
        position += gap
        rows.append(stored(name, position, draw(versions), in_session=draw(st.booleans())))
    given_drafts = [draft(name, draw(versions)) for name in draw(st.lists(st.sampled_from(NAMES)))]
    return Case(rows, given_drafts, draw(st.sets(st.sampled_from(NAMES), max_size=2)))


def last_versions(case: Case) -> dict[str, Draft]:
    given_drafts = {str(draft.event_id): draft for draft in case.drafts}
    return {name: draft for name, draft in given_drafts.items() if name not in case.deleted}


@given(cases())
def test_a_replacement_leaves_what_was_given_and_what_the_session_still_has(case: Case) -> None:
    plan = plans.replacement(case.rows, case.drafts, case.deleted, BLOCK)
    after = applied(case.rows, plan)
    wanted = last_versions(case)
    given_names = {str(draft.event_id) for draft in case.drafts}
    kept = {
        row.event_id: row.digest
        for row in case.rows
        if row.event_id not in given_names | case.deleted and row.in_session
    }
    assert {row.event_id: row.digest for row in after} == kept | {
        name: draft.digest for name, draft in wanted.items()
    }
    # The given order is the order of places, whatever lay where before.
    assert [row.event_id for row in after if row.event_id in wanted] == list(wanted)


@given(cases())
def test_what_is_kept_keeps_its_place_unless_the_given_events_change_theirs(case: Case) -> None:
    plan = plans.replacement(case.rows, case.drafts, case.deleted, BLOCK)
    before = {row.event_id: row.position for row in case.rows}
    wanted = [name for name in last_versions(case) if name in before]
    if wanted == sorted(wanted, key=lambda name: before[name]):
        known = [row.event_id for row in applied(case.rows, plan) if row.event_id in before]
        assert known == sorted(known, key=lambda name: before[name])


@given(cases())
def test_a_replacement_keeps_the_ids_of_what_it_writes_again(case: Case) -> None:
    before = {row.event_id: row.memory_id for row in case.rows}
    plan = plans.replacement(case.rows, case.drafts, case.deleted, BLOCK)
    for row in applied(case.rows, plan):
        assert row.memory_id == before.get(row.event_id, f"new-{row.event_id}")


@given(cases())
def test_replacing_again_changes_nothing(case: Case) -> None:
    plan = plans.replacement(case.rows, case.drafts, case.deleted, BLOCK)
    after = applied(case.rows, plan)
    again = plans.replacement(after, case.drafts, case.deleted, 2 * BLOCK)
    assert again == Plan()


@given(cases())
def test_memories_move_only_where_their_order_forces_it(case: Case) -> None:
    plan = plans.replacement(case.rows, case.drafts, case.deleted, BLOCK)
    after = applied(case.rows, plan)
    before = {row.event_id: row.position for row in case.rows}
    known = [row.event_id for row in after if row.event_id in before]
    in_order = known == sorted(known, key=lambda name: before[name])
    new_are_last = [row.event_id in before for row in after] == sorted(
        (row.event_id in before for row in after), reverse=True
    )
    if in_order and new_are_last:
        assert plan.move == []
        assert [before[name] for name in known] == [
            row.position for row in after if row.event_id in before
        ]


@given(cases())
def test_an_addition_only_puts_new_events_after(case: Case) -> None:
    known = {row.event_id for row in case.rows} | case.deleted
    start = max((row.position for row in case.rows), default=BLOCK) + 1
    plan = plans.addition(case.drafts, known, start)
    assert plan == Plan(insert=plan.insert)
    after = applied(case.rows, plan)
    assert after[: len(case.rows)] == case.rows
    first: dict[str, Draft] = {}
    for new in case.drafts:
        first.setdefault(str(new.event_id), new)
    new_rows = [(row.event_id, row.digest) for row in after[len(case.rows) :]]
    assert new_rows == [(name, new.digest) for name, new in first.items() if name not in known]
    assert plans.addition(case.drafts, known | set(first), start) == Plan()


def test_the_first_session_goes_into_its_block() -> None:
    plan = plans.replacement([], drafts("abc"), set(), BLOCK)
    assert [position for position, _ in plan.insert] == [BLOCK, BLOCK + 1, BLOCK + 2]


def test_a_longer_session_is_continued() -> None:
    plan = plans.replacement(session("ab"), drafts("abc"), set(), BLOCK)
    assert plan == Plan(insert=[(2, draft("c"))])


def test_a_window_keeps_what_came_before_it_and_moves_nothing() -> None:
    plan = plans.replacement(session("abc"), drafts("cd"), set(), BLOCK)
    assert plan == Plan(insert=[(3, draft("d"))])


def test_a_handle_that_is_behind_moves_nothing() -> None:
    """A Session object loaded before others appended: its events are the first, not the last."""
    plan = plans.replacement(session("abc"), drafts("a"), set(), BLOCK)
    assert plan == Plan()


def test_an_event_between_others_moves_them_into_a_new_block() -> None:
    rows = session("ac")
    plan = plans.replacement(rows, drafts("abc"), set(), BLOCK)
    assert [(row.event_id, row.position) for row in applied(rows, plan)] == [
        ("a", BLOCK),
        ("b", BLOCK + 1),
        ("c", BLOCK + 2),
    ]


def test_what_the_session_lost_goes() -> None:
    rows = [stored("a", 0), stored("b", 1, in_session=False), stored("c", 2)]
    plan = plans.replacement(rows, drafts("ac"), set(), BLOCK)
    assert plan == Plan(delete=[1])


def test_a_memory_that_has_a_tombstone_goes() -> None:
    """Left there, it would hold a place that the next event is given too."""
    rows = session("ab")
    plan = plans.replacement(rows, drafts("abc"), {"b"}, BLOCK)
    assert names(applied(rows, plan)) == "ac"


def test_a_text_that_changes_stays_where_it_is() -> None:
    again = draft("b", version=1)
    plan = plans.replacement(session("abc"), [draft("a"), again, draft("c")], set(), BLOCK)
    assert plan == Plan(rewrite=[(1, replace(again, memory_id="old-b"))])


def test_places_lie_apart_and_fit_a_bigint() -> None:
    places = {plans.new_place("user") for _ in range(100)}
    assert len(places) == 100
    assert all(0 <= place < 2**62 for place in places)
    assert all(-(2**62) <= plans.new_place(APP_WIDE) < 0 for _ in range(100))
