"""Deleting and changing a hit: all that a search folds with it goes or changes along."""

import asyncio
import random
import sys
import unicodedata
import uuid
from typing import Any

import asyncpg

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.memory.drafts import drafts_of_events
from adkpg.memory.duplicates import normal
from adkpg.memory.write import apply, statements
from adkpg.tooling.testing.server import Server
from tests.fakes.conversation import (
    USER,
    conversation,
    entry,
    found,
    said,
    session_of,
    text_of,
    whole,
)
from tests.fakes.locks import waits_for_a_lock

SAID = "My safe code is lilac seven."
AGAIN = (
    "my safe code is lilac seven",
    "My  safe code is “lilac” seven!",
    "MY SAFE CODE IS LILAC SEVEN…",
)
OTHERS = (
    "My safe code is not lilac seven.",
    "My safe code is lilac-seven.",
    "My safe code is lilac seven?",
    "My safe code is lilac (seven).",
)


async def left(memory: PgVectorMemoryService, **options: Any) -> set[str]:
    page = await memory.list_memories(**USER, limit=100, **options)
    return {text_of(each) for each in page.items}


async def test_a_deletion_reaches_every_repetition_and_nothing_else(
    memory: PgVectorMemoryService,
) -> None:
    sessions = [conversation(text, session_id=text) for text in (SAID, *AGAIN)]
    for session in sessions:
        await memory.add_session_to_memory(session)
    await memory.add_memory(**USER, memories=[entry(SAID, "note", author="user")])
    kept = [
        *map(entry, OTHERS),
        entry(SAID, "by another", author="agent"),
        entry(SAID, "by no one"),
    ]
    await memory.add_memory(**USER, memories=kept)
    await memory.add_memory(**{**USER, "user_id": "other"}, memories=[entry(SAID, author="user")])
    hits = await memory.search(**USER, query="safe code lilac seven", top_k=20)
    (hit,) = (each for each in hits if each.folded)
    same = {str(hit.memory.id), *hit.folded}
    assert len(same) == 5

    gone = await memory.delete_memory(**USER, memory_id=str(hit.memory.id))
    assert (gone[0], set(gone)) == (hit.memory.id, same)
    page = await memory.list_memories(**USER)
    assert sorted(map(text_of, page.items)) == sorted(map(text_of, kept))
    assert await found(memory, "safe code", user_id="other") == [SAID]
    for session in sessions:
        await memory.add_session_to_memory(session)
        await memory.add_events_to_memory(**USER, events=session.events, session_id=session.id)
    assert len((await memory.list_memories(**USER)).items) == len(kept)
    assert await memory.delete_memory(**USER, memory_id=gone[0]) == []


async def test_names_of_artifacts_tell_apart_in_any_order(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    saved: tuple[dict[str, int], ...] = ({"a": 0, "b": 1}, {"b": 0, "a": 0}, {"a": 0}, {})
    for number, artifacts in enumerate(saved):
        event = said("here it is", f"e{number}")
        event.actions.artifact_delta = artifacts
        await memory.add_session_to_memory(session_of(event, session_id=f"{number}"))
    first = await connection.fetchval("SELECT memory_id FROM memories WHERE session_id = '0'")
    assert len(await memory.delete_memory(**USER, memory_id=first)) == 2
    kept = await connection.fetch("SELECT session_id FROM memories ORDER BY session_id")
    assert [row["session_id"] for row in kept] == ["2", "3"]


async def test_one_that_is_not_live_goes_alone_and_stays_when_others_go(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(**USER, memories=[entry(SAID, name) for name in ("a", "b", "c", "d")])
    await connection.execute("UPDATE memories SET expires_at = now() WHERE memory_id IN ('a', 'b')")
    assert await memory.delete_memory(**USER, memory_id="a") == ["a"]
    assert sorted(await memory.delete_memory(**USER, memory_id="c")) == ["c", "d"]
    assert await memory.get_memory(**USER, memory_id="b") is not None


async def test_whatever_unicode_takes_for_the_same_is_reached(
    words: PgVectorMemoryService,
) -> None:
    """What the server compares is wider than the rule, at every character."""

    def forms(character: str) -> list[str]:
        nfd = unicodedata.normalize("NFD", character)  # noqa: TID251 - one character
        return [character, character.lower(), nfd, nfd.lower()]

    characters = [
        each
        for each in map(chr, range(1, sys.maxunicode + 1))
        if len(set(forms(each))) > 1 and len(set(map(normal, forms(each)))) == 1
    ]
    assert len(characters) > 13_000
    told = [" ".join(each) for each in zip(*map(forms, characters), strict=True)]
    told.append(told[0].replace(" ", "\u2003"))
    assert len(set(told)) == 5
    assert len(set(map(normal, told))) == 1
    await words.add_memory(**USER, memories=[*map(entry, told, "abcde")])
    assert len(await words.delete_memory(**USER, memory_id="d")) == 5


async def test_after_an_action_no_hit_of_the_same_search_says_the_same(
    words: PgVectorMemoryService,
) -> None:
    chance = random.Random(7)
    bases = (
        "I pay 3.5 EUR for C++",
        "Ärger mit İzmir and STRASSE",
        "Привет, Иван",
        'あ が 6"',
        "- 50 -",
    )

    def varied(text: str) -> str:
        tokens = [
            chance.choice(("", "", "“", '"', "-"))
            + chance.choice((str, str.upper, str.lower))(token)
            + chance.choice(("", "", ".", "!", "?", ",", "#", "”", "…", "\u0301"))
            for token in text.split()
        ]
        form = chance.choice(("NFC", "NFD"))
        joined = chance.choice((" ", "  ", "\u00a0", "\n")).join(tokens)
        return unicodedata.normalize(form, joined)  # type: ignore[arg-type] # noqa: TID251

    for round_ in range(24):
        scope: dict[str, Any] = {"app_name": "app", "user_id": f"u{round_}"}
        base = chance.choice(bases)
        texts = [base, *(varied(base) for _ in range(12))]
        memories = [entry(text, author=chance.choice(("user", "agent"))) for text in texts]
        await words.add_memory(**scope, memories=memories)
        hit = chance.choice(await words.search(**scope, query=base, top_k=50))
        told, author = normal(text_of(hit.memory)), hit.memory.author
        if round_ % 2:
            gone = await words.delete_memory(**scope, memory_id=str(hit.memory.id))
            assert set(gone) == {hit.memory.id, *hit.folded}
        else:
            await words.update_memory(**scope, memory_id=str(hit.memory.id), text="now it is new")
        stored = (await words.list_memories(**scope, limit=50)).items
        hits = [each.memory for each in await words.search(**scope, query=base, top_k=50)]
        for each in (*stored, *hits):
            assert (normal(text_of(each)), each.author) != (told, author)
        expected = len(texts) - 1 - len(hit.folded) + (round_ + 1) % 2
        assert len(stored) == expected


async def test_a_new_text_stands_alone_and_no_old_one_comes_back(
    memory: PgVectorMemoryService,
) -> None:
    sessions = [conversation("hi", text, "bye", session_id=text) for text in (SAID, *AGAIN)]
    for session in sessions:
        await memory.add_session_to_memory(session)
    hit = (await memory.search(**USER, query="lilac seven"))[0]
    changed = await memory.update_memory(
        **USER, memory_id=str(hit.memory.id), text="My safe code is mauve.", importance=0.9
    )
    assert changed is not None
    assert (changed.id, changed.event_id, changed.importance) == (hit.memory.id, None, 0.9)
    assert (changed.kind, changed.session_id) == ("turn", hit.memory.session_id)
    assert changed.timestamp == hit.memory.timestamp
    for session in sessions:
        session.events.append(said("and more", "e3"))
        await memory.add_session_to_memory(session)
        await memory.add_events_to_memory(**USER, events=session.events, session_id=session.id)
    assert await left(memory) == {"hi", "bye", "and more", "My safe code is mauve."}
    assert await found(memory, "safe code") == ["My safe code is mauve."]
    assert await found(memory, "lilac") == []


async def test_other_changes_are_made_to_every_repetition(memory: PgVectorMemoryService) -> None:
    for text in (SAID, *AGAIN):
        await memory.add_session_to_memory(conversation(text, session_id=text))
    (hit,) = await memory.search(**USER, query="lilac")
    await memory.update_memory(
        **USER,
        memory_id=str(hit.memory.id),
        importance=0.9,
        topics=["safe"],
        custom_metadata={"tag": "x"},
    )
    stored = (await memory.list_memories(**USER)).items
    assert len(stored) == 4
    assert {text_of(each) for each in stored} == {SAID, *AGAIN}
    for each in stored:
        assert (each.importance, each.topics, each.custom_metadata["tag"]) == (0.9, ["safe"], "x")
    await memory.update_memory(
        **USER, memory_id=str(hit.memory.id), expires_at="2001-01-01T00:00:00Z"
    )
    assert await found(memory, "lilac") == []


async def test_facts_drawn_from_any_repetition_go_or_end_along(
    words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    def ids(prefix: str) -> list[str]:
        return [f"{prefix}{number}" for number in range(3)]

    for change in ("delete", "text", "end"):
        await words.add_memory(
            **USER,
            memories=[
                *(entry(SAID, id_, author="user") for id_ in ids(change)),
                *(entry(f"fact {id_}", f"f-{id_}") for id_ in ids(change)),
            ],
        )
        await connection.executemany(
            "INSERT INTO memory_provenance (app_name, user_id, memory_id, origin_id)"
            " VALUES ('app', 'user', $1, $2)",
            [(f"f-{id_}", id_) for id_ in ids(change)],
        )
        own: dict[str, Any] = {**USER, "memory_id": f"{change}1"}
        if change == "delete":
            assert len(await words.delete_memory(**own)) == 3
        elif change == "text":
            await words.update_memory(**own, text="Another code.")
        else:
            await words.update_memory(**own, expires_at="2999-01-01T00:00:00Z")
            ends = await connection.fetch(
                "SELECT expires_at FROM memories WHERE memory_id LIKE '%end%'"
            )
            assert [row["expires_at"].year for row in ends] == [2999] * 6
            await words.update_memory(**own, never_expires=True)
            ends = await connection.fetch(
                "SELECT expires_at FROM memories WHERE memory_id LIKE '%end%'"
            )
            assert [row["expires_at"] for row in ends] == [None] * 6
            continue
        facts = await connection.fetchval(
            "SELECT count(*) FROM memories WHERE memory_id LIKE $1", f"f-{change}%"
        )
        assert facts == 0


async def test_two_at_once_delete_each_repetition_once(
    words: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await words.add_memory(**USER, memories=[entry(SAID, f"m{number}") for number in range(9)])
    async with database.run.transaction() as writer:
        await writer.fetch(statements.lock_session(**USER, session_id=""))
        both = [
            asyncio.create_task(words.delete_memory(**USER, memory_id=memory_id))
            for memory_id in ("m0", "m8")
        ]
        await waits_for_a_lock(connection, 2)
    answers = await asyncio.gather(*both)
    assert sorted(map(len, answers)) == [0, 9]
    assert await left(words) == set()


async def test_a_repetition_that_is_being_written_goes_along(
    words: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await words.add_memory(**USER, memories=[entry(SAID, "m", author="user")])
    place: Any = {**USER, "session_id": "s"}
    drafts = drafts_of_events([said(AGAIN[0], "e")], "s")
    async with database.run.transaction() as writer:
        await apply.ingest(writer, place, drafts, whole=True, settings=Settings())
        deleting = asyncio.create_task(words.delete_memory(**USER, memory_id="m"))
        await waits_for_a_lock(connection)
    assert len(await deleting) == 2
    await words.add_session_to_memory(session_of(said(AGAIN[0], "e")))
    assert await left(words) == set()


async def test_an_append_waits_for_no_deletion_and_is_shown_by_the_next_search(
    words: PgVectorMemoryService, outbox: DatabaseSessionService, database: Database
) -> None:
    session = await outbox.create_session(**USER, session_id="s")
    await words.add_memory(**USER, memories=[entry(SAID, "m", author="user")])
    async with database.run.transaction() as deleting:
        await deleting.fetch(statements.lock_person(**USER))
        await deleting.fetch(statements.lock_same(**USER, memory_id="m"))
        await outbox.append_event(session, said(SAID, "e"))
        await deleting.fetch(statements.delete_memories(**USER, memory_ids=["m"]))
    (hit,) = await words.search(**USER, query="lilac")
    assert hit.memory.event_id == "e"
    assert await words.delete_memory(**USER, memory_id=str(hit.memory.id)) == [hit.memory.id]
    await words.add_session_to_memory(await whole(outbox))
    assert await left(words) == set()


async def test_actions_appends_and_ingests_at_once_never_deadlock(
    memory: PgVectorMemoryService, outbox: DatabaseSessionService
) -> None:
    stored = [await outbox.create_session(**USER, session_id=f"s{number}") for number in range(3)]

    async def talk(session: Any) -> None:
        for turn in range(5):
            await outbox.append_event(session, said(SAID, f"e{turn}"))
            await memory.add_session_to_memory(await whole(outbox, session.id))

    async def act(number: int) -> None:
        for turn in range(5):
            for each in (await memory.list_memories(**USER, limit=1)).items:
                if (number + turn) % 3 == 0:
                    await memory.update_memory(**USER, memory_id=str(each.id), importance=0.7)
                elif (number + turn) % 3 == 1:
                    await memory.update_memory(
                        **USER, memory_id=str(each.id), text=f"another {number}"
                    )
                else:
                    await memory.delete_memory(**USER, memory_id=str(each.id))

    async with asyncio.timeout(60):
        await asyncio.gather(*map(talk, stored), *map(act, range(3)))
    for hit in await memory.search(**USER, query="lilac"):
        await memory.delete_memory(**USER, memory_id=str(hit.memory.id))
    for session in stored:
        await memory.add_session_to_memory(await whole(outbox, session.id))
    assert await found(memory, "lilac") == []


async def test_no_locale_decides_what_is_reached(server: Server) -> None:
    name = f"{server.template}_{uuid.uuid4().hex[:8]}"
    await server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
    try:
        async with PgVectorMemoryService(server.url_of(name), mode="text") as memory:
            await memory.database.upgrade()
            texts = ("ÄRGER in İzmir", "“Ärger” in İzmir.", "Ärger in Izmir", "Arger in İzmir")
            await memory.add_memory(**USER, memories=[*map(entry, texts, "abcd")])
            assert await memory.delete_memory(**USER, memory_id="b") == ["b", "a"]
    finally:
        await server.drop(name)
