"""What ADK expects of a memory service, as suites to inherit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions.session import Session
from google.genai import types

from adkpg.tooling.testing.events import said

USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}


def session_of(
    *events: Event, session_id: str = "s", app_name: str = "app", user_id: str = "user"
) -> Session:
    """Returns a Session object as a Runner holds it; it is stored nowhere."""
    return Session(id=session_id, app_name=app_name, user_id=user_id, events=list(events))


async def found(service: BaseMemoryService, query: str, **scope: str) -> list[str]:
    """Returns the texts that a search finds, the best first."""
    response = await service.search_memory(**(USER | scope), query=query)
    return texts_of(response.memories)


def texts_of(memories: Sequence[Any]) -> list[str]:
    """Returns each memory's text."""
    return [
        " ".join(part.text for part in memory.content.parts or [] if part.text)
        for memory in memories
    ]


async def remember_apart(service: BaseMemoryService, *texts: str) -> None:
    """Remembers each text in a session of its own, so that none is another's neighbour."""
    for number, text in enumerate(texts):
        await service.add_session_to_memory(session_of(said(text), session_id=f"s{number}"))


class MemoryServiceConformance:
    """Tests of a memory service; inherit them and give the fixture ``service``.

    Each test wants a service that remembers nothing yet, and that finds a text by one of its
    words. What ADK makes optional is another suite, `MemoryDeletionConformance`. A service that
    differs on purpose overrides that test and says why; for the coroutines' marks see
    `SessionServiceConformance`.
    """

    @pytest.fixture
    def service(self) -> BaseMemoryService:
        """The service under test, which remembers nothing: to be overridden."""
        raise NotImplementedError("Override the fixture `service`: it returns what is tested.")

    async def test_a_session_is_found_by_a_word(self, service: BaseMemoryService) -> None:
        await remember_apart(service, "I like oolong", "Noted")
        assert await found(service, "oolong") == ["I like oolong"]
        assert await found(service, "Do I drink oolong?") == ["I like oolong"]

    async def test_an_entry_says_who_when_and_what(self, service: BaseMemoryService) -> None:
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

    async def test_the_best_match_comes_first(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session_of(said("green tea"), session_id="1"))
        await service.add_session_to_memory(session_of(said("green mountain tea"), session_id="2"))
        await service.add_session_to_memory(session_of(said("green grass"), session_id="3"))
        assert await found(service, "green mountain tea") == [
            "green mountain tea",
            "green tea",
            "green grass",
        ]

    async def test_a_longer_session_is_remembered_whole(self, service: BaseMemoryService) -> None:
        first, second = said("oolong one"), said("oolong two")
        await service.add_session_to_memory(session_of(first))
        await service.add_session_to_memory(session_of(first, second))
        assert sorted(await found(service, "oolong")) == ["oolong one", "oolong two"]

    async def test_a_session_added_again_replaces_itself(self, service: BaseMemoryService) -> None:
        first, second = said("oolong one"), said("oolong two")
        await service.add_session_to_memory(session_of(first, second))
        await service.add_session_to_memory(session_of(first))
        assert sorted(await found(service, "oolong")) == ["oolong one"]

    async def test_an_empty_session_forgets_itself(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session_of(said("oolong")))
        await service.add_session_to_memory(session_of())
        assert await found(service, "oolong") == []

    async def test_the_last_version_of_a_session_wins(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session_of(said("oolong", id="e")))
        await service.add_session_to_memory(session_of(said("sencha", id="e")))
        assert await found(service, "oolong sencha") == ["sencha"]

    async def test_sessions_are_remembered_apart(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session_of(said("oolong", id="e"), session_id="1"))
        await service.add_session_to_memory(session_of(said("sencha", id="e"), session_id="2"))
        assert sorted(await found(service, "oolong sencha")) == ["oolong", "sencha"]

    async def test_entries_of_equal_event_ids_have_ids_of_their_own(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_session_to_memory(session_of(said("oolong", id="e"), session_id="1"))
        await service.add_session_to_memory(session_of(said("sencha", id="e"), session_id="2"))
        response = await service.search_memory(**USER, query="oolong sencha")
        assert len({entry.id for entry in response.memories}) == 2

    async def test_adding_a_session_twenty_times_changes_nothing(
        self, service: BaseMemoryService
    ) -> None:
        session = session_of(*(said(f"oolong {number}") for number in range(5)))
        await service.add_session_to_memory(session)
        first = await service.search_memory(**USER, query="oolong")
        assert len(first.memories) == 5
        for _ in range(20):
            await service.add_session_to_memory(session)
        assert await service.search_memory(**USER, query="oolong") == first

    async def test_the_callers_session_may_change_afterwards(
        self, service: BaseMemoryService
    ) -> None:
        session = session_of(said("oolong"))
        await service.add_session_to_memory(session)
        content = session.events[0].content
        assert content is not None
        assert content.parts is not None
        content.parts[0].text = "sencha"
        assert await found(service, "oolong sencha") == ["oolong"]

    async def test_added_events_join_their_session(self, service: BaseMemoryService) -> None:
        first, second = said("oolong one"), said("oolong two")
        await service.add_session_to_memory(session_of(first))
        await _add(service, second, session_id="s")
        assert sorted(await found(service, "oolong")) == ["oolong one", "oolong two"]

    async def test_the_first_version_of_an_added_event_wins(
        self, service: BaseMemoryService
    ) -> None:
        await _add(service, said("oolong", id="e"), session_id="s")
        await _add(service, said("sencha", id="e"), session_id="s")
        assert await found(service, "oolong sencha") == ["oolong"]

    async def test_the_first_of_equal_events_in_one_call_wins(
        self, service: BaseMemoryService
    ) -> None:
        await _add(service, said("oolong", id="e"), said("sencha", id="e"), session_id="s")
        assert await found(service, "oolong sencha") == ["oolong"]

    async def test_a_session_wins_over_its_added_events(self, service: BaseMemoryService) -> None:
        await _add(service, said("oolong", id="e"), session_id="s")
        await service.add_session_to_memory(session_of(said("sencha", id="e")))
        assert await found(service, "oolong sencha") == ["sencha"]

    async def test_events_without_a_session_share_a_place(self, service: BaseMemoryService) -> None:
        await _add(service, said("oolong", id="e"))
        await _add(service, said("oolong", id="e"), session_id=None)
        await _add(service, said("oolong again", id="f"))
        assert sorted(await found(service, "oolong")) == ["oolong", "oolong again"]

    async def test_no_events_are_no_error(self, service: BaseMemoryService) -> None:
        await _add(service, session_id="s")
        assert await found(service, "oolong") == []

    async def test_events_without_text_are_not_found(self, service: BaseMemoryService) -> None:
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

    async def test_thoughts_are_not_found(self, service: BaseMemoryService) -> None:
        thought = types.Part(text="oolong", thought=True)
        event = Event(author="agent", content=types.Content(role="model", parts=[thought]))
        await service.add_session_to_memory(session_of(event))
        assert await found(service, "oolong") == []

    @pytest.mark.parametrize("query", ["", " ", "\n\t", "?!", "'"])
    async def test_an_empty_query_finds_nothing(
        self, service: BaseMemoryService, query: str
    ) -> None:
        await service.add_session_to_memory(session_of(said("oolong")))
        assert await found(service, query) == []

    @pytest.mark.parametrize(
        "query",
        [
            "oolong " + "x" * 20_000,
            "oolong " + " ".join(f"word{number}" for number in range(5_000, 7_500)),
            "oolong\x00 or \x00",
            "oolong'; DROP TABLE memories; --",
            "oolong & | ! <-> ( :* \\ %s %(a)s $1 {0} :query",
            "oolong \U0001f375 ooloŋ",
            "oolong \ud800",
        ],
        ids=["20 kB word", "20 kB words", "nul", "sql", "operators", "emoji", "surrogate"],
    )
    async def test_any_text_is_a_query(self, service: BaseMemoryService, query: str) -> None:
        await remember_apart(service, "oolong", "sencha")
        assert await found(service, query) == ["oolong"]
        assert await found(service, "sencha") == ["sencha"]

    async def test_texts_that_look_like_code_are_remembered_as_they_are(
        self,
        service: BaseMemoryService,
    ) -> None:
        text = "oolong'); DELETE FROM memories; -- \\ %s {0} \u0000 <b>"
        await service.add_session_to_memory(session_of(said(text)))
        assert await found(service, "oolong") == [text]

    async def test_nobody_remembered_nothing(self, service: BaseMemoryService) -> None:
        assert await found(service, "oolong") == []

    async def test_scopes_are_pairs_and_not_joined_names(self, service: BaseMemoryService) -> None:
        places = [("a/b", "c"), ("a", "b/c"), ("a", "c"), ("a", ""), ("", "a")]
        for app, user in places:
            await service.add_session_to_memory(
                session_of(said(f"oolong {app} | {user}", id="e"), app_name=app, user_id=user)
            )
        for app, user in places:
            assert await found(service, "oolong", app_name=app, user_id=user) == [
                f"oolong {app} | {user}"
            ]

    async def test_one_user_of_two_apps_is_two(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session_of(said("oolong"), app_name="one"))
        assert await found(service, "oolong", app_name="two") == []
        assert await found(service, "oolong", app_name="one") == ["oolong"]


class MemoryDeletionConformance:
    """Tests of ``delete_memory``, for services that have it; inherit them like the others."""

    @pytest.fixture
    def service(self) -> BaseMemoryService:
        """The service under test, which remembers nothing: to be overridden."""
        raise NotImplementedError("Override the fixture `service`: it returns what is tested.")

    async def test_a_deleted_memory_is_gone(self, service: BaseMemoryService) -> None:
        await remember_apart(service, "oolong", "sencha")
        await service.delete_memory(**USER, memory_id=await _id_of(service, "oolong"))
        assert await found(service, "oolong") == []
        assert await found(service, "sencha") == ["sencha"]

    async def test_a_deleted_memory_does_not_come_back(self, service: BaseMemoryService) -> None:
        session = session_of(said("oolong", id="e"), said("sencha", id="f"))
        await service.add_session_to_memory(session)
        await service.delete_memory(**USER, memory_id=await _id_of(service, "oolong"))
        await service.add_session_to_memory(session)
        await _add(service, *session.events, session_id="s")
        assert await found(service, "oolong sencha") == ["sencha"]

    async def test_a_tombstone_belongs_to_its_session(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session_of(said("oolong", id="e")))
        await service.delete_memory(**USER, memory_id=await _id_of(service, "oolong"))
        await service.add_session_to_memory(
            session_of(said("oolong elsewhere", id="e"), session_id="other")
        )
        assert await found(service, "oolong") == ["oolong elsewhere"]

    @pytest.mark.parametrize(
        "memory_id", [None, "", "unknown", "nul\x00", "\ud800", "' or true --"]
    )
    async def test_nothing_to_delete_is_no_error(
        self, service: BaseMemoryService, memory_id: str | None
    ) -> None:
        await service.add_session_to_memory(session_of(said("oolong")))
        await service.delete_memory(**USER, memory_id=memory_id)
        assert await found(service, "oolong") == ["oolong"]

    async def test_another_user_cannot_delete(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session_of(said("oolong")))
        memory_id = await _id_of(service, "oolong")
        await service.delete_memory(app_name="app", user_id="other", memory_id=memory_id)
        await service.delete_memory(app_name="other", user_id="user", memory_id=memory_id)
        assert await found(service, "oolong") == ["oolong"]


async def _add(service: BaseMemoryService, *events: Event, **place: Any) -> None:
    await service.add_events_to_memory(**{**USER, **place}, events=list(events))


async def _id_of(service: BaseMemoryService, query: str) -> str:
    response = await service.search_memory(**USER, query=query)
    return str(response.memories[0].id)
