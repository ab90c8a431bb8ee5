"""What passages are worth: each session of a data set as one long memory, by vectors alone.

    python -m benchmarks.scripts.passages FILE

FILE is one that `adkpg memory evaluate` takes. A session is found if it has a turn that answers the
question; the offline embedder reads its beginning alone, or all of its passages.
"""

import argparse
import asyncio
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from adkpg.embedding import LocalEmbedder
from adkpg.memory.vectors.passages import passages
from adkpg.tooling.evaluation.reading import read

CUTOFFS = (1, 3, 5)


async def measure(path: Path) -> None:
    embedder = LocalEmbedder(cache_size=0)
    recalls: dict[str, list[list[float]]] = {"beginning": [], "passages": []}
    vectors = dict.fromkeys(recalls, 0)
    for store in read(path).stores:
        texts = [
            "\n".join(f"{turn.author}: {turn.text}" for turn in session.turns)
            for session in store.chats
        ]
        place = {turn.id: n for n, each in enumerate(store.chats) for turn in each.turns}
        asked = [
            (question.text, found)
            for question in store.questions
            if (found := {place[turn] for turn in question.evidence if turn in place})
        ]
        questions = np.array([await embedder.embed_query(text) for text, _ in asked])
        for way, kept in recalls.items():
            cut = [[text] for text in texts]
            if way == "passages":
                found_in = [passages(None, text, embedder.window) for text in texts]
                cut = [
                    [part.text for part in each] or [text]
                    for text, each in zip(texts, found_in, strict=True)
                ]
            parts = [part for each in cut for part in each]
            owners = np.repeat(np.arange(len(texts)), [len(each) for each in cut])
            cosines = questions @ np.array(await embedder.embed_documents(parts)).T
            best = np.full((len(asked), len(texts)), -1.0)
            for owner, column in zip(owners, cosines.T, strict=True):
                best[:, owner] = np.maximum(best[:, owner], column)
            vectors[way] += len(parts)
            for order, (_, found) in zip(np.argsort(-best, axis=1), asked, strict=True):
                kept.append([len(found & set(order[:k].tolist())) / len(found) for k in CUTOFFS])
    table = Table("READ", "VECTORS", *(f"RECALL@{k}" for k in CUTOFFS))
    for way, kept in recalls.items():
        table.add_row(way, f"{vectors[way]:,}", *(f"{r:.3f}" for r in np.mean(kept, axis=0)))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path)
    asyncio.run(measure(parser.parse_args().file))


if __name__ == "__main__":
    main()
