"""Any text for a question, anything for a filter, any JSON for metadata: an answer or a refusal."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adkpg import PgVectorMemoryService, SearchFilters
from adkpg.errors import InvalidInput
from adkpg.jsontext import mended
from tests.fakes.conversation import USER, entry
from tests.fakes.strategies import any_json, any_text
from tests.fakes.toys import ToyEmbedder

_syntax = st.lists(
    st.sampled_from(
        ["'", '"', "\\", "%", "_", "*", ":*", "&", "|", "!", "<->", "(", ")", ";", "--", "/*", "$1"]
    )
    | st.sampled_from(
        ["tea", "NOT", "NULL", "\x00", "\ud800", "{", "}", "[", "]", "::", "😀", "茶", "ชา", "\n"]
    ),
    max_size=12,
).map(" ".join)
_value = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | any_text
    | st.lists(any_text, max_size=3)
    | st.dictionaries(any_text, any_json, max_size=2)
    | st.binary(max_size=4)
)


@pytest.fixture
def stage(database_url: str) -> Iterator[tuple[asyncio.Runner, PgVectorMemoryService]]:
    with asyncio.Runner() as runner:
        memory = PgVectorMemoryService(database_url, embedder=ToyEmbedder())
        texts = ("Ana likes tea.", "Ben drives a car.")
        runner.run(memory.add_memory(**USER, memories=[entry(text) for text in texts]))
        yield runner, memory
        runner.run(memory.close())


def test_any_question_is_answered(stage: tuple[asyncio.Runner, PgVectorMemoryService]) -> None:
    runner, memory = stage

    @settings(max_examples=40)
    @given(_syntax | any_text)
    def run(query: str) -> None:
        answered = runner.run(memory.search_memory(**USER, query=query)).memories
        assert len(answered) <= 2
        assert len(runner.run(memory.search(**USER, query=f"{query} tea"))) >= 1

    run()


def test_any_filter_is_refused_or_narrows(
    stage: tuple[asyncio.Runner, PgVectorMemoryService],
) -> None:
    runner, memory = stage
    names = ("after", "before", "authors", "session_ids", "metadata", "kinds", "topics")

    @settings(max_examples=60)
    @given(st.dictionaries(st.sampled_from(names), _value, min_size=1, max_size=2))
    def run(conditions: dict[str, Any]) -> None:
        try:
            filters = SearchFilters(**conditions)
        except InvalidInput:
            return
        listed = runner.run(memory.list_memories(**USER, filters=filters)).items
        found = runner.run(memory.search(**USER, query="tea", filters=filters))
        assert {hit.memory.id for hit in found} <= {each.id for each in listed}
        assert runner.run(memory.count_memories(**USER, filters=filters)) == len(listed)

    run()


def test_any_option_is_refused_or_taken(
    stage: tuple[asyncio.Runner, PgVectorMemoryService],
) -> None:
    runner, memory = stage
    names = ("top_k", "min_relevance", "half_life", "max_tokens", "neighbours", "mode", "app_wide")
    more = ("filters", "similarity_top_k", "exclude_invocation_id")
    value = _value | st.timedeltas() | st.just(timedelta(0)) | st.just("text") | st.just(10**30)

    @settings(max_examples=60)
    @given(st.dictionaries(st.sampled_from(names + more), value, min_size=1, max_size=2))
    def run(options: dict[str, Any]) -> None:
        try:
            found = runner.run(memory.search(**USER, query="tea", **options))
        except InvalidInput:
            return
        assert len(found) <= 2

    run()


def test_any_metadata_comes_back(
    stage: tuple[asyncio.Runner, PgVectorMemoryService],
) -> None:
    runner, memory = stage
    user = USER | {"user_id": "of metadata"}

    @settings(max_examples=40)
    @given(st.dictionaries(any_text, any_json, max_size=3), any_text)
    @example({"\ud800": "\ud800", "\x00": "\x1a0000"}, "\ud800")
    def run(metadata: dict[str, Any], author: str) -> None:
        metadata = {f"k{key}": value for key, value in metadata.items()}
        note = entry("tea", "m", author=author, custom_metadata=metadata)
        runner.run(memory.add_memory(**user, memories=[note]))
        kept = runner.run(memory.get_memory(**user, memory_id="m"))
        assert kept is not None
        assert kept.custom_metadata == mended(metadata), "half a character is a mark"
        if metadata:
            filters = SearchFilters(metadata=metadata)
            assert runner.run(memory.count_memories(**user, filters=filters)) == 1

    run()


def test_any_cursor_is_refused_or_read(
    stage: tuple[asyncio.Runner, PgVectorMemoryService],
) -> None:
    runner, memory = stage

    @given(_syntax | any_text)
    def run(cursor: str) -> None:
        with pytest.raises(InvalidInput):
            runner.run(memory.list_memories(**USER, cursor=cursor))

    run()
