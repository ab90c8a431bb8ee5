"""What ADK's memory services and ours remember and forget, and where a built-in differs."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from tests.conformance.memories import (
    KINDS,
    USER,
    expecting,
    found,
    remember_apart,
    said,
    service_of,
    session_of,
)

UPSERTS = "updates each event where it stands and removes none"
NO_DELETE = "does not implement delete_memory"


@pytest.fixture
async def service(kind: str, place: str, tmp_path: Path) -> AsyncIterator[BaseMemoryService]:
    async with service_of(kind, place, tmp_path) as running:
        yield running


every_service = pytest.mark.parametrize("kind", KINDS)


# Sessions


@every_service
async def test_a_session_is_found_by_a_word(service: BaseMemoryService) -> None:
    await remember_apart(service, "I like oolong", "Noted")
    assert await found(service, "oolong") == ["I like oolong"]
    assert await found(service, "Do I drink oolong?") == ["I like oolong"]


@expecting(
    ["I like oolong", "Noted"],
    in_memory=(["I like oolong"], "looks at each event by itself"),
    adk_sqlite=(["I like oolong"], "looks at each event by itself"),
    adkpg_in_memory=(["I like oolong"], "likewise: it is small"),
)
async def test_the_turn_beside_a_match_is_found_after_it(
    service: BaseMemoryService, expected: list[str]
) -> None:
    await service.add_session_to_memory(session_of(said("I like oolong"), said("Noted")))
    assert await found(service, "oolong") == expected


@every_service
async def test_an_entry_says_who_when_and_what(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(
        session_of(said("I like oolong", author="alice", timestamp=1_700_000_000.0))
    )
    response = await service.search_memory(**USER, query="oolong")
    (entry,) = response.memories
    assert entry.id
    assert entry.author == "alice"
    assert entry.timestamp is not None
    assert datetime.fromisoformat(entry.timestamp).timestamp() == 1_700_000_000
    assert entry.content == types.Content(role="user", parts=[types.Part(text="I like oolong")])


@expecting(True, in_memory=(False, "naive local time"), adk_sqlite=(False, "naive local time"))
async def test_a_timestamp_has_an_offset(service: BaseMemoryService, expected: bool) -> None:
    await service.add_session_to_memory(session_of(said("oolong")))
    (entry,) = (await service.search_memory(**USER, query="oolong")).memories
    assert (datetime.fromisoformat(str(entry.timestamp)).tzinfo is not None) is expected


@every_service
async def test_the_best_match_comes_first(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("green tea"), session_id="1"))
    await service.add_session_to_memory(session_of(said("green mountain tea"), session_id="2"))
    await service.add_session_to_memory(session_of(said("green grass"), session_id="3"))
    assert await found(service, "green mountain tea") == [
        "green mountain tea",
        "green tea",
        "green grass",
    ]


@every_service
async def test_a_longer_session_is_remembered_whole(service: BaseMemoryService) -> None:
    first, second = said("oolong one"), said("oolong two")
    await service.add_session_to_memory(session_of(first))
    await service.add_session_to_memory(session_of(first, second))
    assert sorted(await found(service, "oolong")) == ["oolong one", "oolong two"]


@expecting(["oolong one"], adk_sqlite=(["oolong one", "oolong two"], UPSERTS))
async def test_a_session_added_again_replaces_itself(
    service: BaseMemoryService, expected: list[str]
) -> None:
    first, second = said("oolong one"), said("oolong two")
    await service.add_session_to_memory(session_of(first, second))
    await service.add_session_to_memory(session_of(first))
    assert sorted(await found(service, "oolong")) == expected


@expecting([], adk_sqlite=(["oolong"], UPSERTS))
async def test_an_empty_session_forgets_itself(
    service: BaseMemoryService, expected: list[str]
) -> None:
    await service.add_session_to_memory(session_of(said("oolong")))
    await service.add_session_to_memory(session_of())
    assert await found(service, "oolong") == expected


@every_service
async def test_the_last_version_of_a_session_wins(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("oolong", "e")))
    await service.add_session_to_memory(session_of(said("sencha", "e")))
    assert await found(service, "oolong sencha") == ["sencha"]


@every_service
async def test_sessions_are_remembered_apart(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("oolong", "e"), session_id="1"))
    await service.add_session_to_memory(session_of(said("sencha", "e"), session_id="2"))
    assert sorted(await found(service, "oolong sencha")) == ["oolong", "sencha"]


@expecting(2, in_memory=(1, "the event's id, which is unique within a session only"))
async def test_entries_of_equal_event_ids_have_ids_of_their_own(
    service: BaseMemoryService, expected: int
) -> None:
    await service.add_session_to_memory(session_of(said("oolong", "e"), session_id="1"))
    await service.add_session_to_memory(session_of(said("sencha", "e"), session_id="2"))
    response = await service.search_memory(**USER, query="oolong sencha")
    assert len({entry.id for entry in response.memories}) == expected


@every_service
async def test_adding_a_session_twenty_times_changes_nothing(service: BaseMemoryService) -> None:
    session = session_of(*(said(f"oolong {number}") for number in range(5)))
    await service.add_session_to_memory(session)
    first = await service.search_memory(**USER, query="oolong")
    assert len(first.memories) == 5
    for _ in range(20):
        await service.add_session_to_memory(session)
    assert await service.search_memory(**USER, query="oolong") == first


@every_service
async def test_the_callers_session_may_change_afterwards(service: BaseMemoryService) -> None:
    session = session_of(said("oolong"))
    await service.add_session_to_memory(session)
    content = session.events[0].content
    assert content is not None
    assert content.parts is not None
    content.parts[0].text = "sencha"
    assert await found(service, "oolong sencha") == ["oolong"]


# Events


async def add(service: BaseMemoryService, *events: Event, **place: Any) -> None:
    await service.add_events_to_memory(**{**USER, **place}, events=list(events))


@every_service
async def test_added_events_join_their_session(service: BaseMemoryService) -> None:
    first, second = said("oolong one"), said("oolong two")
    await service.add_session_to_memory(session_of(first))
    await add(service, second, session_id="s")
    assert sorted(await found(service, "oolong")) == ["oolong one", "oolong two"]


@expecting(["oolong"], adk_sqlite=(["sencha"], UPSERTS))
async def test_the_first_version_of_an_added_event_wins(
    service: BaseMemoryService, expected: list[str]
) -> None:
    await add(service, said("oolong", "e"), session_id="s")
    await add(service, said("sencha", "e"), session_id="s")
    assert await found(service, "oolong sencha") == expected


@expecting(["oolong"], adk_sqlite=(["sencha"], UPSERTS))
async def test_the_first_of_equal_events_in_one_call_wins(
    service: BaseMemoryService, expected: list[str]
) -> None:
    await add(service, said("oolong", "e"), said("sencha", "e"), session_id="s")
    assert await found(service, "oolong sencha") == expected


@every_service
async def test_a_session_wins_over_its_added_events(service: BaseMemoryService) -> None:
    await add(service, said("oolong", "e"), session_id="s")
    await service.add_session_to_memory(session_of(said("sencha", "e")))
    assert await found(service, "oolong sencha") == ["sencha"]


@every_service
async def test_events_without_a_session_share_a_place(service: BaseMemoryService) -> None:
    await add(service, said("oolong", "e"))
    await add(service, said("oolong", "e"), session_id=None)
    await add(service, said("oolong again", "f"))
    assert sorted(await found(service, "oolong")) == ["oolong", "oolong again"]


@every_service
async def test_no_events_are_no_error(service: BaseMemoryService) -> None:
    await add(service, session_id="s")
    assert await found(service, "oolong") == []


@every_service
async def test_events_without_text_are_not_found(service: BaseMemoryService) -> None:
    call = types.Part.from_function_call(name="oolong", args={"oolong": "oolong"})
    image = types.Part.from_bytes(data=b"oolong", mime_type="image/png")
    await service.add_session_to_memory(
        session_of(
            Event(author="agent", content=types.Content(role="model", parts=[call])),
            Event(author="agent", content=types.Content(role="model", parts=[image])),
            Event(author="agent", content=types.Content(role="model", parts=[])),
            Event(author="agent"),
        )
    )
    assert await found(service, "oolong") == []


@expecting([], in_memory=(["oolong"], "matches thoughts too"))
async def test_thoughts_are_not_found(service: BaseMemoryService, expected: list[str]) -> None:
    thought = types.Part(text="oolong", thought=True)
    event = Event(author="agent", content=types.Content(role="model", parts=[thought]))
    await service.add_session_to_memory(session_of(event))
    assert await found(service, "oolong") == expected


@expecting(True, in_memory=(False, "searches the text alone"), adk_sqlite=(False, "likewise"))
async def test_an_author_is_searched(service: BaseMemoryService, expected: bool) -> None:
    await service.add_session_to_memory(session_of(said("I like oolong", author="Alice")))
    assert (
        bool(await found(service, "What does Alice like to eat?".replace("like", ""))) is expected
    )


# Forgetting


async def id_of(service: BaseMemoryService, query: str) -> str:
    response = await service.search_memory(**USER, query=query)
    return str(response.memories[0].id)


forgetting = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "adk_sqlite"])


@pytest.mark.parametrize("kind", ["adk_sqlite"])
async def test_adks_sqlite_service_cannot_forget(service: BaseMemoryService) -> None:
    with pytest.raises(NotImplementedError):
        await service.delete_memory(**USER, memory_id="1")


@forgetting
async def test_a_deleted_memory_is_gone(service: BaseMemoryService) -> None:
    await remember_apart(service, "oolong", "sencha")
    await service.delete_memory(**USER, memory_id=await id_of(service, "oolong"))
    assert await found(service, "oolong") == []
    assert await found(service, "sencha") == ["sencha"]


@forgetting
async def test_a_deleted_memory_does_not_come_back(service: BaseMemoryService) -> None:
    session = session_of(said("oolong", "e"), said("sencha", "f"))
    await service.add_session_to_memory(session)
    await service.delete_memory(**USER, memory_id=await id_of(service, "oolong"))
    await service.add_session_to_memory(session)
    await add(service, *session.events, session_id="s")
    assert await found(service, "oolong sencha") == ["sencha"]


@expecting(
    ["oolong elsewhere"],
    in_memory=([], "an event id is deleted in all of the user's sessions"),
)
async def test_a_tombstone_belongs_to_its_session(
    service: BaseMemoryService, expected: list[str], kind: str
) -> None:
    if kind == "adk_sqlite":
        with pytest.raises(NotImplementedError):
            await service.delete_memory(**USER, memory_id="1")
        return
    await service.add_session_to_memory(session_of(said("oolong", "e")))
    await service.delete_memory(**USER, memory_id=await id_of(service, "oolong"))
    await service.add_session_to_memory(
        session_of(said("oolong elsewhere", "e"), session_id="other")
    )
    assert await found(service, "oolong") == expected


@forgetting
@pytest.mark.parametrize("memory_id", [None, "", "unknown", "nul\x00", "\ud800", "' or true --"])
async def test_nothing_to_delete_is_no_error(
    service: BaseMemoryService, memory_id: str | None
) -> None:
    await service.add_session_to_memory(session_of(said("oolong")))
    await service.delete_memory(**USER, memory_id=memory_id)
    assert await found(service, "oolong") == ["oolong"]


@forgetting
async def test_another_user_cannot_delete(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("oolong")))
    memory_id = await id_of(service, "oolong")
    await service.delete_memory(app_name="app", user_id="other", memory_id=memory_id)
    await service.delete_memory(app_name="other", user_id="user", memory_id=memory_id)
    assert await found(service, "oolong") == ["oolong"]


# Entries


@expecting(
    ["oolong"],
    in_memory=(NotImplementedError, "takes events only"),
    adk_sqlite=(NotImplementedError, "takes events only"),
)
async def test_entries_are_remembered(
    service: BaseMemoryService, expected: list[str] | type[Exception]
) -> None:
    entry = MemoryEntry(id="m", content=types.Content(parts=[types.Part(text="oolong")]))
    if isinstance(expected, type):
        with pytest.raises(expected):
            await service.add_memory(**USER, memories=[entry])
        return
    for _ in range(3):
        await service.add_memory(**USER, memories=[entry])
    assert await found(service, "oolong") == expected
    assert await id_of(service, "oolong") == "m"
