"""What ADK's memory services and ours find, for whom, and where a built-in differs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.adk.memory.base_memory_service import BaseMemoryService

from tests.conformance.memories import (
    KINDS,
    expecting,
    found,
    remember_apart,
    said,
    service_of,
    session_of,
)


@pytest.fixture
async def service(kind: str, place: str, tmp_path: Path) -> AsyncIterator[BaseMemoryService]:
    async with service_of(kind, place, tmp_path) as running:
        yield running


every_service = pytest.mark.parametrize("kind", KINDS)


# Queries


@every_service
@pytest.mark.parametrize("query", ["", " ", "\n\t", "?!", "'"])
async def test_an_empty_query_finds_nothing(service: BaseMemoryService, query: str) -> None:
    await service.add_session_to_memory(session_of(said("oolong")))
    assert await found(service, query) == []


@every_service
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
async def test_any_text_is_a_query(service: BaseMemoryService, query: str) -> None:
    await remember_apart(service, "oolong", "sencha")
    assert await found(service, query) == ["oolong"]
    assert await found(service, "sencha") == ["sencha"]


@every_service
async def test_texts_that_look_like_code_are_remembered_as_they_are(
    service: BaseMemoryService,
) -> None:
    text = "oolong'); DELETE FROM memories; -- \\ %s {0} \u0000 <b>"
    await service.add_session_to_memory(session_of(said(text)))
    assert await found(service, "oolong") == [text]


@every_service
async def test_nobody_remembered_nothing(service: BaseMemoryService) -> None:
    assert await found(service, "oolong") == []


# Scopes


@every_service
async def test_scopes_are_pairs_and_not_joined_names(service: BaseMemoryService) -> None:
    places = [("a/b", "c"), ("a", "b/c"), ("a", "c"), ("a", ""), ("", "a")]
    for app, user in places:
        await service.add_session_to_memory(
            session_of(said(f"oolong {app} | {user}", "e"), app_name=app, user_id=user)
        )
    for app, user in places:
        assert await found(service, "oolong", app_name=app, user_id=user) == [
            f"oolong {app} | {user}"
        ]


@every_service
async def test_one_user_of_two_apps_is_two(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("oolong"), app_name="one"))
    assert await found(service, "oolong", app_name="two") == []
    assert await found(service, "oolong", app_name="one") == ["oolong"]


@expecting(
    20,
    in_memory=(10, "a fixed limit of its own"),
    adk_sqlite=(30, "a limit of 50"),
    adkpg_in_memory=(5, "a notebook shows few"),
)
async def test_a_search_is_limited(service: BaseMemoryService, expected: int) -> None:
    await service.add_session_to_memory(
        session_of(*(said(f"oolong {number}") for number in range(30)))
    )
    assert len(await found(service, "oolong")) == expected
