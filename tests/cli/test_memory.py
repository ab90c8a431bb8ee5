"""``adkpg memory`` against a real server and the offline embedder."""

import asyncio
import json
from pathlib import Path

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import PgVectorMemoryService
from tests.fakes.commands import Adkpg
from tests.fakes.cross_encoder import export

SAID = ["I moved to Lisbon in spring.", "My dog is called Rex."]
PLACE = ("--app", "chat", "--user", "alice")


@pytest.fixture
def stored(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with two memories of one user, named by the environment."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)

    async def fill() -> None:
        async with PgVectorMemoryService(database_url) as memory:
            await memory.add_memory(
                app_name="chat",
                user_id="alice",
                memories=[
                    MemoryEntry(
                        content=types.Content(parts=[types.Part(text=text)]),
                        author="alice",
                        timestamp="2026-03-01T10:00:00+00:00",
                    )
                    for text in SAID
                ],
            )

    asyncio.run(fill())
    return database_url


@pytest.mark.usefixtures("stored")
def test_search_by_meaning(adkpg: Adkpg) -> None:
    outcome = adkpg("memory", "search", "What is the name of her pet?", *PLACE)
    assert outcome.code == 0
    assert "Rex" in outcome.out
    assert "2026-03-01 10:00:00" in outcome.out


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
def test_search_as_json(adkpg: Adkpg, mode: str) -> None:
    outcome = adkpg("memory", "search", "Lisbon", *PLACE, "--mode", mode, "--limit", "1", "--json")
    (hit,) = json.loads(outcome.out)["hits"]
    assert hit["memory"]["content"]["parts"][0]["text"] == SAID[0]
    assert (hit["lexical"] > 0) == (mode != "vector")
    assert (hit["cosine"] is None) == (mode == "text")


@pytest.mark.usefixtures("stored")
def test_search_in_a_rerankers_order(adkpg: Adkpg, tmp_path: Path) -> None:
    """Its model counts the words in common: `red`, which only the second memory has."""
    export(tmp_path / "encoder")
    ask = ("memory", "search", "Lisbon, and who is red Rex?", *PLACE, "--mode", "text")
    onnx = ("--reranker", f"onnx:{tmp_path / 'encoder'}")
    plain = json.loads(adkpg(*ask, "--json").out)["hits"]
    assert [hit["reason"]["rerank"] for hit in plain] == [None, None]
    outcome = adkpg(*ask, *onnx, "--json")
    hits = json.loads(outcome.out)["hits"]
    assert outcome.err == ""
    assert all(0 < hit["reason"]["rerank"] < 1 for hit in hits)
    explained = adkpg(*ask, *onnx, "--explain")
    assert f"reranker {hits[0]['reason']['rerank']:.3f}" in explained.out
    away = adkpg(*ask, "--reranker", "tei:http://127.0.0.1:1", "--explain")
    assert away.code == 0
    assert "The search kept its own order: Reranker 'tei' cannot answer now" in away.err
    assert "reranker" not in away.out
    assert "Rex" in away.out
    unknown = adkpg(*ask, "--reranker", "mine")
    assert unknown.code == 1
    assert "names no reranker" in unknown.err
    nowhere = adkpg(*ask, "--reranker", f"onnx:{tmp_path}")
    assert nowhere.code == 1
    assert "model.onnx" in nowhere.err


@pytest.mark.usefixtures("stored")
def test_nothing_found_is_said(adkpg: Adkpg) -> None:
    outcome = adkpg("memory", "search", "Lisbon", "--app", "chat", "--user", "bob")
    assert outcome.code == 0
    assert outcome.out.startswith("Nothing")


@pytest.mark.usefixtures("stored")
def test_index_without_large_users_has_nothing_to_do(adkpg: Adkpg) -> None:
    outcome = adkpg("memory", "index")
    assert (outcome.code, outcome.out) == (0, "Vectors put into the index: 0.\n")


@pytest.mark.usefixtures("stored")
def test_index_without_an_embedder_is_a_sentence(
    adkpg: Adkpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    outcome = adkpg("memory", "index")
    assert (outcome.code, outcome.out) == (1, "")
    assert "embedder" in outcome.err


@pytest.mark.parametrize("wrong", [("--limit", "0"), ("--mode", "magic")])
def test_options_out_of_range_are_refused(adkpg: Adkpg, wrong: tuple[str, str]) -> None:
    outcome = adkpg("memory", "search", "Lisbon", *PLACE, *wrong)
    assert outcome.code == 2
    assert wrong[0] in outcome.err
