"""How large a document's pieces should be: do headings find the sections they stood over?

Each heading of the given Markdown files is a question, and is taken out of the text, so that only
what the section says can lead to it. Prints a table of chunk sizes with the recall of the section
among the first hits, and within hits of 1,000 estimated tokens. Usage::

    ADKPG_DATABASE_URL=embedded python -m benchmarks.scripts.documents FILE.md...
"""

import argparse
import asyncio
import uuid
from collections import Counter
from pathlib import Path

from adkpg import Database, PgVectorMemoryService
from adkpg.documents import markdown
from adkpg.documents.service import Documents
from adkpg.memory.records import text_of
from adkpg.memory.search.options import Mode
from adkpg.memory.vectors.passages import tokens

SIZES = (50, 100, 150, 200, 300, 450)
MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")
BUDGET = 1_000
SHORTEST_SECTION = 30


def questions_of(paths: list[Path]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns texts by source, without their headings, and questions by what stands for one."""
    texts: dict[str, str] = {}
    asked: dict[str, str] = {}
    number = 0
    for path in paths:
        written = []
        for section in markdown.sections(path.read_text(encoding="utf-8")):
            number += 1
            body = "\n\n".join(block.text for block in section.blocks)
            written.append(f"# S{number:05}\n\n{body}")
            title = section.path[-1] if section.path else ""
            if len(title.split()) >= 2 and tokens(body) >= SHORTEST_SECTION:
                asked[f"S{number:05}"] = title
        texts[path.name + ".md"] = "\n\n".join(written)
    common = Counter(title.casefold() for title in asked.values())
    unique = {mark: title for mark, title in asked.items() if common[title.casefold()] == 1}
    return texts, unique


async def measure(database: Database, paths: list[Path]) -> None:
    texts, asked = questions_of(paths)
    print(f"{len(texts)} documents, {len(asked)} questions")
    print("| chunk_tokens | pieces | mode | recall@1 | recall@5 | within 1,000 tokens |")
    print("|---|---|---|---|---|---|")
    for size in SIZES:
        memory = PgVectorMemoryService(database)
        documents = Documents(memory, chunk_tokens=size)
        app_name = f"chunks {size} {uuid.uuid4()}"
        pieces = 0
        for source, text in texts.items():
            pieces += (await documents.add(app_name=app_name, source=source, text=text)).added
        for mode in MODES:
            first = five = budget = 0
            for mark, question in asked.items():
                hits = await memory.search(
                    app_name=app_name, user_id=None, query=question, mode=mode, top_k=50
                )
                found = [text_of(hit.memory.content).startswith(mark) for hit in hits]
                spent = 0
                for hit, right in zip(hits, found, strict=True):
                    spent += tokens(text_of(hit.memory.content))
                    if right or spent > BUDGET:
                        budget += right and spent <= BUDGET
                        break
                first += any(found[:1])
                five += any(found[:5])
            rates = " | ".join(f"{count / len(asked):.3f}" for count in (first, five, budget))
            print(f"| {size} | {pieces} | {mode} | {rates} |", flush=True)
        for source in texts:
            await documents.delete(app_name=app_name, source=source)


async def main() -> None:
    parser = argparse.ArgumentParser(description="Measures sizes of documents' pieces.")
    parser.add_argument("files", nargs="+", type=Path, help="Markdown files.")
    async with Database() as database:
        await database.upgrade()
        await measure(database, parser.parse_args().files)


if __name__ == "__main__":
    asyncio.run(main())
