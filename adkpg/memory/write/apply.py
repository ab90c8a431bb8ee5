"""Writing memories: what one transaction does to those of a session, or to those of some ids.

Writers of one session's memories wait for each other. They wait first for the session's advisory
lock, whether the session is stored or not. Then they wait for its row, which appends that remember
hold. A call that deletes or changes memories waits for all writers of the person's memories
instead, since repetitions are in any session.
"""

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

from adkpg.audit.service import done
from adkpg.database import Database, Transaction
from adkpg.errors import InvalidInput
from adkpg.keys import ScopeKey, SessionKey, require_memorable
from adkpg.memory import duplicates
from adkpg.memory.drafts import Draft, as_json, require_small
from adkpg.memory.queue.claims import Claims
from adkpg.memory.write import plan as plans
from adkpg.memory.write import statements
from adkpg.memory.write.plan import Plan, Stored
from adkpg.queries import Answer, Query
from adkpg.settings import Settings

T = TypeVar("T")

# Memories written or moved by one statement, so that none takes as long as a whole library.
_BATCH = 500
# Memories of a whole session that are sent unasked: most have few new events, if not few at all.
_LAST = 16
# Characters of text up to which preparing them takes less than changing to a thread and back.
_LONG = 20_000
# In the place of an event's id; none has NUL.
_REST = "\x00"


async def off_loop(length: int, work: Callable[[], T]) -> T:
    """Does work on texts in a thread if they are long, so that others go on meanwhile.

    Args:
      length: All texts together, in characters.
      work: What to do.
    """
    return await asyncio.to_thread(work) if length > _LONG else work()


@dataclass(frozen=True)
class Claimed:
    """Memories that were written and wait for vectors, which who wrote them has claimed.

    Attributes:
      rows: Those, as `Claims.claim` returns them.
      others: Whether the user has more to embed, which no worker has claimed.
    """

    rows: list[dict[str, Any]]
    others: bool


@dataclass(frozen=True)
class Terms:
    """On which memories are claimed as they are written.

    Attributes:
      claims: The queue of what is to be embedded.
      model_id: The caller's model; nothing is claimed where the app has another active one.
      begin: Is given what is about to be written, once it is known to be new, unless it is little:
        the caller may embed it meanwhile. Its rows get their places when they are written.
    """

    claims: Claims
    model_id: int
    begin: Callable[[list[dict[str, Any]]], None]


async def ingest_turns(
    database: Database,
    place: SessionKey,
    drafts: Sequence[Draft],
    *,
    whole: bool,
    terms: Terms | None = None,
) -> Claimed | None:
    """Writes what a session's events are to be in memory, as `ingest` does.

    That is one round trip where new events come last and are few; two where they are not so few of
    a whole session, or of what the caller embeds meanwhile. What changes, moves or deletes memories
    is a transaction. A cancelled caller has claimed nothing.

    Args:
      database: Where.
      place: The session.
      drafts: The events' memories, in the session's order.
      whole: Whether they are all of the session, or come after what it has.
      terms: Claims what is new for the caller; None leaves it to others.

    Returns:
      What was claimed; None if others are to embed what was written.

    Raises:
      InvalidInput: A memory or its scope's name is too large; nothing was written.
    """
    settings = database.settings
    wanted: dict[str, Draft] = {}
    for draft in drafts:
        # The last version of an event wins in a whole session, else the first.
        if whole or draft.event_id not in wanted:
            wanted[str(draft.event_id)] = draft
    few = list(wanted.values())[-_LAST:] if whole else list(wanted.values())
    sent = _small(few, settings) if terms is None or len(wanted) <= _LAST else []
    claim = str(uuid.uuid4())
    for known_to_be_new in (False, True):
        if len(sent) > _BATCH:
            break
        require_memorable(place["app_name"], place["user_id"])
        rows = {str(draft.event_id): _row(place, draft) for draft in sent}
        query = statements.ingest_turns(
            **place,
            whole=whole,
            event_ids=list(wanted),
            digests=[draft.digest for draft in wanted.values()],
            given_ids=list(rows),
            memories=await _given([(0, draft) for draft in sent]),
            config=settings.text_search_config,
            place=plans.new_place(place["user_id"]),
            model_id=None if terms is None else terms.model_id,
            claim=claim,
            lease_s=settings.job_lease_s,
        )
        writing = _written(database, query)
        if terms is not None:
            if known_to_be_new:
                terms.begin(list(rows.values()))
            writing = terms.claims.held(writing, partial(_claimed_rows, rows))
        answer = await writing
        if answer is None:
            break
        if "needed" not in answer:
            claimed = _claimed_rows(rows, answer)
            return None if answer["claimed_until"] is None else Claimed(claimed, answer["others"])
        asked = set(answer["needed"])
        sent = [draft for event_id, draft in wanted.items() if event_id in asked]
        for draft in sent:
            require_small(draft, settings)
    await database.run.transact(
        lambda transaction: ingest(transaction, place, drafts, whole=whole, settings=settings)
    )
    return None


async def _written(database: Database, query: Query[Answer[str | None]]) -> dict[str, Any] | None:
    (made,) = await database.run.fetch(query)
    answer: dict[str, Any] | None = json.loads(made["answer"] or "null")
    return answer


def _row(place: SessionKey, draft: Draft) -> dict[str, Any]:
    """A memory as who embeds it reads it, before it has a place."""
    return {
        "app_name": place["app_name"],
        "user_id": place["user_id"],
        "memory_id": draft.memory_id,
        "author": draft.author,
        "body": draft.body,
        "digest": draft.digest,
    }


def _claimed_rows(
    rows: Mapping[str, dict[str, Any]], answer: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """The rows that were written and claimed, which get their places."""
    if answer is None or answer.get("claimed_until") is None:
        return []
    until, written = datetime.fromisoformat(answer["claimed_until"]), set(answer["written"] or ())
    claimed = [row for event_id, row in rows.items() if event_id in written]
    for position, row in enumerate(claimed, answer["first"] or 0):
        row.update(position=position, attempts=1, lease_expires_at=until)
    return claimed


def _small(drafts: list[Draft], settings: Settings) -> list[Draft]:
    """Leaves out what is too large, which may be stored already."""
    small = []
    for draft in drafts:
        try:
            require_small(draft, settings)
        except InvalidInput:
            continue
        small.append(draft)
    return small


async def ingest(
    transaction: Transaction,
    place: SessionKey,
    drafts: Sequence[Draft],
    *,
    whole: bool,
    settings: Settings,
) -> None:
    """Writes what a session's events are to be in memory.

    Args:
      transaction: Where.
      place: The session.
      drafts: The events' memories, in the session's order.
      whole: Whether they are all of the session (`plan.replacement`), or come after what it has
        (`plan.addition`).
      settings: With the text search configuration where neither the app nor the script has one,
        and with the limit of a memory.

    Raises:
      InvalidInput: A memory or its scope's name is too large; nothing was written.
    """
    await transaction.fetch(statements.lock_session(**place))
    kept = await transaction.fetch(statements.lock_stored_session(**place))
    following: int | None = kept[0]["memory_position"] if kept else None
    stored: list[Stored] = []
    if whole:
        stored, plan = await _replacement(transaction, place, drafts)
    else:
        plan = await _addition(transaction, place, drafts, following)
    await apply(transaction, place, plan, settings)
    after = plans.next_position(stored, plan) if whole or plan.insert else following
    if kept and following != after:
        await transaction.fetch(statements.place_next_memory(**place, position=after))


async def _addition(
    transaction: Transaction,
    place: SessionKey,
    drafts: Sequence[Draft],
    following: int | None,
) -> Plan:
    event_ids = [str(draft.event_id) for draft in drafts]
    known = await transaction.fetch(statements.select_known_events(**place, event_ids=event_ids))
    if following is None:
        last = await transaction.fetch(statements.select_last_position(**place))
        following = last[0]["position"] + 1 if last else plans.new_place(place["user_id"])
    return plans.addition(drafts, {row["event_id"] for row in known}, following)


async def _replacement(
    transaction: Transaction, place: SessionKey, drafts: Sequence[Draft]
) -> tuple[list[Stored], Plan]:
    """Plans from what differs, or from all that the session has if its order changes."""
    wanted = {str(draft.event_id): draft for draft in drafts}
    compared = await transaction.fetch(
        statements.select_differences(
            **place,
            event_ids=list(wanted),
            digests=[draft.digest for draft in wanted.values()],
        )
    )
    (rest,) = (row for row in compared if row["event_id"] is None)
    new_place = plans.new_place(place["user_id"])
    if not rest["in_session"]:
        stored = await _all_stored(transaction, place)
        tombstones = await transaction.fetch(statements.select_tombstones(**place))
        deleted = {row["event_id"] for row in tombstones}
        return stored, plans.replacement(stored, drafts, deleted, new_place)
    differing = {row["event_id"]: row for row in compared if row is not rest}
    stored = [
        Stored(**cast("statements.StoredTurn", row))
        for row in differing.values()
        if row["position"] is not None
    ]
    last = rest["position"]
    if last is not None and last not in {row.position for row in stored}:
        # The last of those that stay stands for all of them.
        stored.append(Stored(_REST, last, "", "", in_session=True))
        stored.sort(key=lambda row: row.position)
    changed = [draft for event_id, draft in wanted.items() if event_id in differing]
    return stored, plans.replacement(stored, changed, frozenset(), new_place)


async def _all_stored(transaction: Transaction, place: SessionKey) -> list[Stored]:
    rows = await transaction.fetch(statements.select_session_memories(**place))
    return [Stored(**row) for row in rows]


async def write_by_id(
    transaction: Transaction,
    scope: ScopeKey,
    drafts: Sequence[Draft],
    *,
    settings: Settings,
) -> None:
    """Writes memories of given ids, over those that are stored; equal ones are left alone.

    Args:
      transaction: Where.
      scope: The user, or the app-wide scope.
      drafts: The memories.
      settings: As for `ingest`.
    """
    wanted = statements.select_by_ids(**scope, memory_ids=[draft.memory_id for draft in drafts])
    await transaction.fetch(statements.lock_session(**scope, session_id=""))
    found = await transaction.fetch(wanted)
    if sources := sorted({row["session_id"] for row in found} - {""}):
        for session_id in sources:
            await transaction.fetch(statements.lock_session(**scope, session_id=session_id))
        # A writer of such a session may have moved or dropped them until now.
        found = await transaction.fetch(wanted)
    known = {row["memory_id"]: row for row in found}
    plan = Plan()
    for draft in drafts:
        row = known.get(draft.memory_id)
        if row is None:
            plan.insert.append((plans.new_place(scope["user_id"]), draft))
        elif row["digest"] != draft.digest:
            written = replace(draft, session_id=row["session_id"], event_id=row["event_id"])
            plan.delete.append(row["position"])
            plan.insert.append((row["position"], written))
    await apply(transaction, scope, plan, settings)


async def update(
    transaction: Transaction,
    scope: ScopeKey,
    memory_id: str,
    change: Callable[[Any], Draft],
    *,
    text: str | None,
    settings: Settings,
) -> bool:
    """Changes a memory and its repetitions; returns whether it is still there.

    A new text is the memory's alone, and its repetitions go for good. So does what its event said:
    the memory is of no event then, and stands alone. Facts and summaries that were drawn from the
    texts that go, go with them. Other changes are made to all of them where they stand.

    Args:
      transaction: Where.
      scope: The user, or the app-wide scope.
      memory_id: The memory.
      change: Takes a memory's row and returns the memory as it is to be.
      text: Its new text; None if all keep theirs.
      settings: As for `ingest`.
    """
    rows = await _same(transaction, scope, memory_id)
    if not rows:
        return False
    if text is None:
        changed = [(row, change(row)) for row in rows]
        plan = Plan(alter=[(int(row["position"]), draft) for row, draft in changed])
        await apply(transaction, scope, plan, settings)
        ended = [
            row
            for row, draft in changed
            if draft.expires_at != row["expires_at"] or draft.ttl_s is not None
        ]
        if ended:
            await transaction.fetch(
                statements.end_derived(
                    **scope,
                    origins=[row["memory_id"] for row in ended],
                    was=[row["expires_at"] for row in ended],
                )
            )
        return True
    own, *others = rows
    draft = await off_loop(len(text), lambda: change(own))
    if own["event_id"] is None:
        here = [(int(own["position"]), draft)]
        plan = Plan(rewrite=here, alter=here)
    else:
        others = rows
        plan = Plan(insert=[(plans.new_place(scope["user_id"]), draft)])
    await _bury(transaction, scope, others)
    await apply(transaction, scope, plan, settings)
    return True


async def delete(transaction: Transaction, scope: ScopeKey, memory_id: str) -> list[str]:
    """Deletes a memory and its repetitions, for good if they came from events.

    Returns:
      Their ids, the memory's first; none without the memory.
    """
    rows = await _same(transaction, scope, memory_id)
    if rows:
        await _bury(transaction, scope, rows)
        await transaction.fetch(done(scope, action="delete_memory", subject=memory_id))
    return [str(row["memory_id"]) for row in rows]


async def delete_exactly(
    transaction: Transaction, scope: ScopeKey, memory_ids: Sequence[str]
) -> None:
    """Deletes some memories and no repetitions of them, for good if they came from events."""
    await transaction.fetch(statements.lock_person(**scope))
    erase = statements.delete_memories(**scope, memory_ids=list(memory_ids))
    if await transaction.fetch(erase):
        subject = memory_ids[0] if len(memory_ids) == 1 else None
        await transaction.fetch(done(scope, action="delete_memory", subject=subject))


async def _same(transaction: Transaction, scope: ScopeKey, memory_id: str) -> list[Any]:
    """Locks a memory and the live ones that a search folds with it; the memory is the first.

    Only an append that remembers its new event writes memories of the person meanwhile.
    """
    # An ingest that is writing one again would not be seen, and bring it back.
    await transaction.fetch(statements.lock_person(**scope))
    rows = await transaction.fetch(statements.lock_same(**scope, memory_id=memory_id))
    return await off_loop(
        sum(len(row["content"] or row["body"] or "") for row in rows),
        lambda: same(rows, memory_id),
    )


def same(rows: Sequence[Any], memory_id: str) -> list[Any]:
    """Returns a memory's row and those that a search folds with it; the memory's is the first."""
    for group in duplicates.groups_of_rows(rows):
        found = [rows[place] for place in group]
        if own := [row for row in found if row["memory_id"] == memory_id]:
            return own + [row for row in found if row["memory_id"] != memory_id]
    return []


async def _bury(transaction: Transaction, scope: ScopeKey, rows: Sequence[Any]) -> None:
    if rows:
        memory_ids = [row["memory_id"] for row in rows]
        await transaction.fetch(statements.delete_memories(**scope, memory_ids=memory_ids))


async def apply(transaction: Transaction, scope: ScopeKey, plan: Plan, settings: Settings) -> None:
    """Makes a plan's changes, in batches.

    Args:
      transaction: Where; it holds the advisory locks of those whose memories they are.
      scope: The user, or the app-wide scope.
      plan: The changes.
      settings: As for `ingest`.

    Raises:
      InvalidInput: A memory or its scope's name is too large; nothing was written.
    """
    require_memorable(scope["app_name"], scope["user_id"])
    for _, draft in (*plan.insert, *plan.rewrite, *plan.alter):
        require_small(draft, settings)
    config = settings.text_search_config
    here = _scope(scope)
    came_from = {to: origin for origin, to in plan.move}
    held = {*plan.delete, *came_from.values()}
    held |= {came_from.get(position, position) for position, _ in plan.rewrite}
    if held:
        await transaction.fetch(statements.lock_positions(**here, positions=sorted(held)))
    for positions in _batches(plan.delete):
        await transaction.fetch(statements.delete_positions(**here, positions=positions))
    for moves in _batches(plan.move):
        froms, tos = map(list, zip(*moves, strict=True))
        await transaction.fetch(statements.move_positions(**here, froms=froms, tos=tos))
    for rows in _batches(plan.rewrite):
        positions = [position for position, _ in rows]
        await transaction.fetch(statements.forget_derived(**here, positions=positions))
        given = await _given(rows)
        await transaction.fetch(
            statements.rewrite_memories(**here, positions=positions, memories=given, config=config)
        )
    for rows in _batches(plan.alter):
        positions = [position for position, _ in rows]
        given = await _given(rows)
        await transaction.fetch(
            statements.update_attributes(**here, positions=positions, memories=given)
        )
    for rows in _batches(plan.insert):
        given = await _given(rows)
        await transaction.fetch(statements.insert_memories(**here, memories=given, config=config))


async def _given(rows: Sequence[tuple[int, Draft]]) -> str:
    length = sum(len(draft.content) + len(draft.body) for _, draft in rows)
    return await off_loop(length, lambda: as_json(rows))


def _batches(items: list[T]) -> Iterator[list[T]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]


def _scope(place: ScopeKey) -> ScopeKey:
    return {"app_name": place["app_name"], "user_id": place["user_id"]}
