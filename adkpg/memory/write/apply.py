"""Writing memories: what one transaction does to those of a session, or to those of some ids.

Writers of one session's memories wait for each other: first for the session's advisory lock, which
there is whether the session is stored or not, then for its row, which appends that remember hold.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adkpg.database import Transaction
from adkpg.memory.drafts import Draft, facet_parameters, insertion
from adkpg.memory.write import plan as ingestion
from adkpg.memory.write import statements
from adkpg.memory.write.rewriting import rewrite_text


async def ingest(
    transaction: Transaction,
    place: dict[str, str],
    drafts: Sequence[Draft],
    *,
    whole: bool,
    config: str,
) -> None:
    """Writes what a session's events are to be in memory.

    Args:
      transaction: Where.
      place: The app_name, user_id and session_id.
      drafts: The events' memories, in the session's order.
      whole: Whether they are all of the session (`ingestion.replacement`), or come behind what it
        has (`ingestion.addition`).
      config: Text search configuration where neither the app nor the script has one.
    """
    app_name, user_id = place["app_name"], place["user_id"]
    await transaction.fetch(statements.lock_session(), place)
    kept = await transaction.fetch(statements.lock_stored_session(), place)
    stored = [
        ingestion.Stored(**row)
        for row in await transaction.fetch(statements.select_session_memories(), place)
    ]
    deleted = {
        row["event_id"] for row in await transaction.fetch(statements.select_tombstones(), place)
    }
    planned = ingestion.replacement if whole else ingestion.addition
    plan = planned(stored, drafts, deleted, ingestion.new_block(user_id))
    if plan.delete:
        await transaction.fetch(statements.delete_positions(), place | {"positions": plan.delete})
    if plan.move:
        froms, tos = map(list, zip(*plan.move, strict=True))
        await transaction.fetch(statements.move_positions(), place | {"froms": froms, "tos": tos})
    if plan.insert:
        await _insert(transaction, app_name, user_id, plan.insert, config)
    following = ingestion.next_position(stored, plan)
    if kept and kept[0]["memory_position"] != following:
        await transaction.fetch(statements.place_next_memory(), place | {"next": following})


async def write_by_id(
    transaction: Transaction, app_name: str, user_id: str, drafts: Sequence[Draft], *, config: str
) -> None:
    """Writes memories of given ids, over those that are stored; equal ones are left alone.

    Args:
      transaction: Where.
      app_name: The app.
      user_id: The user, or the reserved id of the app-wide scope.
      drafts: The memories.
      config: As for `ingest`.
    """
    scope = {"app_name": app_name, "user_id": user_id}
    wanted = {**scope, "memory_ids": [draft.memory_id for draft in drafts]}
    await transaction.fetch(statements.lock_session(), {**scope, "session_id": ""})
    found = await transaction.fetch(statements.select_by_ids(), wanted)
    if sources := sorted({row["session_id"] for row in found} - {""}):
        for session_id in sources:
            await transaction.fetch(statements.lock_session(), {**scope, "session_id": session_id})
        # A writer of such a session may have moved or dropped them until now.
        found = await transaction.fetch(statements.select_by_ids(), wanted)
    known = {row["memory_id"]: row for row in found}
    rows = []
    for draft in drafts:
        row = known.get(draft.memory_id)
        if row is None:
            rows.append((ingestion.new_block(user_id), draft))
        elif row["digest"] != draft.digest:
            origin = {"session_id": row["session_id"], "event_id": row["event_id"]}
            rows.append((row["position"], replace(draft, **origin)))
    replaced = [known[draft.memory_id]["position"] for _, draft in rows if draft.memory_id in known]
    await transaction.fetch(statements.delete_positions(), {**scope, "positions": replaced})
    await _insert(transaction, app_name, user_id, rows, config)


async def update(
    transaction: Transaction,
    place: dict[str, str],
    session_id: str,
    change: Callable[[Any], Draft],
    *,
    rewrite: bool,
    config: str,
) -> bool:
    """Changes a memory where it stands; returns whether it is still there.

    Args:
      transaction: Where.
      place: The app_name, user_id and memory_id.
      session_id: The session it came from.
      change: Takes the memory's row and returns the memory as it is to be.
      rewrite: Whether its text changes.
      config: As for `ingest`.
    """
    # An ingest of its session may be writing it again, elsewhere.
    await transaction.fetch(statements.lock_session(), place | {"session_id": session_id})
    found = await transaction.fetch(statements.lock_memory(), place)
    if not found:
        return False
    (row,) = found
    draft = change(row)
    await transaction.fetch(statements.update_facets(), place | facet_parameters(draft))
    if rewrite:
        app_name, user_id = place["app_name"], place["user_id"]
        await rewrite_text(transaction, app_name, user_id, row["position"], draft, config)
    return True


async def delete(transaction: Transaction, place: dict[str, str], session_id: str) -> None:
    """Deletes a memory, for good if it came from an event.

    Args:
      transaction: Where.
      place: The app_name, user_id and memory_id.
      session_id: The session it came from.
    """
    # An ingest that is writing it again would not be seen, and bring it back.
    await transaction.fetch(statements.lock_session(), place | {"session_id": session_id})
    await transaction.fetch(statements.delete_memory(), place)


async def _insert(
    transaction: Transaction,
    app_name: str,
    user_id: str,
    rows: Sequence[tuple[int, Draft]],
    config: str,
) -> None:
    await transaction.fetch(
        statements.insert_memories(), insertion(app_name, user_id, rows, config)
    )
