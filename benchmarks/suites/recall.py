"""Recall of what answers a question: each mode of adkpg, and ADK's own memory services.

    python benchmarks/recall.py FILE [--database URL] [--mode MODE ...] [--conversations N]
                                     [--quick] [--json FILE] [--compare FILE] [--vectors FILE]
                                     [--no-adk]

FILE is a data set's own file: LoCoMo's, LongMemEval's, BEAM's (chat.json, or a folder of chats),
Multi-Session Chat's, or one of one's own (docs/evaluation.md); JSON or JSON lines, also as .gz.
Each conversation is one user's, in a database of its own on the server of --database, else
ADKPG_DATABASE_URL, else the embedded one. Every question that names evidence is asked of its own
conversation and of the next, where nothing answers it; 50 hits are asked for.

Reports recall@5, @10, @20 and @40, whether any or all of the evidence is found, by session too,
MRR, NDCG@10, recall within 500, 1,000 and 4,000 tokens (four bytes each), hits of foreign and of
unanswerable questions, and how long a search takes without and with the question's embedding.

Intervals are 95 % bootstrap intervals over questions; differences are paired. A run kept with
--json is what a later one, say with other constants, is compared with by --compare (or --against).
"""

import argparse
import asyncio
import json
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from google.adk.memory import InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService

from adkpg import Settings
from adkpg.errors import AdkpgError
from adkpg.memory.search.options import MODES, Mode
from adkpg.tooling.evaluation import DataSet, read
from adkpg.tooling.evaluation.asking import System
from adkpg.tooling.evaluation.evaluation import evaluate, remembered, require_conversations, ways
from adkpg.tooling.evaluation.figures import DEPTH, RESAMPLES
from adkpg.tooling.evaluation.remembering import APP
from adkpg.tooling.evaluation.tabulation import compared, sentences, tables
from adkpg.tooling.terminal import bars, show
from benchmarks.contenders.recall import Adk

QUICK_CONVERSATIONS, QUICK_QUESTIONS, QUICK_RESAMPLES = 2, 25, 200

Told = Callable[[str, int, int], None]


@asynccontextmanager
async def systems(
    url: str, data: DataSet, arguments: argparse.Namespace, told: Told
) -> AsyncIterator[dict[str, System]]:
    """What is asked, by name; the last one is compared with the others.

    Vectors are left out if no embedder is installed.
    """
    modes: list[Mode] = list(dict.fromkeys(arguments.modes or reversed(MODES)))
    async with AsyncExitStack() as stack:
        found: dict[str, System] = {}
        if not arguments.no_adk:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            sqlite = SqliteMemoryService(Path(directory) / "memory.db", max_results=DEPTH)
            for name, peer in (
                ("ADK in-memory", Adk(InMemoryMemoryService())),
                ("ADK SQLite", Adk(sqlite)),
            ):
                for done, store in enumerate(data.stores, 1):
                    await peer.remember(store)
                    told(f"{name}: stores remembered", done, len(data.stores))
                found[name] = peer
        memory, embedder = await stack.enter_async_context(
            remembered(
                url,
                data.stores,
                words=modes == ["text"],
                vectors=arguments.vectors,
                told=told,
            )
        )
        if embedder is None:
            modes = ["text"]
        yield found | ways(memory, APP, modes, embedder=embedder)


async def measure(url: str, arguments: argparse.Namespace) -> None:
    quick: bool = arguments.quick
    kept = earlier(arguments.against) if arguments.against else None
    data = read(arguments.file).first(
        stores=QUICK_CONVERSATIONS if quick else arguments.conversations,
        questions=QUICK_QUESTIONS if quick else None,
    )
    require_conversations(data)
    resamples = QUICK_RESAMPLES if quick else RESAMPLES
    with bars() as told:
        async with systems(url, data, arguments, told) as asked:
            found = await evaluate(data, asked, told=told, resamples=resamples)
    since = found.since(kept, resamples=resamples) if kept is not None else {}
    print(*sentences(data), sep="\n")
    parts = tables(found)
    if since:
        parts.append(compared(f"SINCE {arguments.against.name}", since))
    for columns, rows in parts:
        print()
        show(columns, rows)
    if arguments.json is not None:
        document = {"file": arguments.file.name, **found.document()}
        document["compared"] = {
            way: {name: asdict(each) for name, each in differences.items()}
            for way, differences in since.items()
        }
        arguments.json.write_text(json.dumps(document), encoding="utf-8")


def earlier(path: Path) -> Mapping[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise SystemExit(f"{path} cannot be read ({exc}); name what --json wrote.") from exc
    if not isinstance(kept, dict):
        raise SystemExit(f"{path} is not an earlier run; name what --json wrote.")
    return kept


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--database", metavar="URL")
    parser.add_argument(
        "--mode",
        dest="modes",
        action="append",
        choices=MODES,
        help="repeated, side by side; default: all",
    )
    parser.add_argument("--conversations", type=count, metavar="N", help="the first N only")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_QUESTIONS} questions of each of {QUICK_CONVERSATIONS} conversations",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--compare",
        "--against",
        dest="against",
        type=Path,
        metavar="FILE",
        help="what --json wrote before",
    )
    parser.add_argument(
        "--vectors", type=Path, metavar="FILE", help="keep the vectors there for the next run"
    )
    parser.add_argument("--no-adk", action="store_true", help="without ADK's own services")
    arguments = parser.parse_args(words)
    configured = Settings().database_url
    url = arguments.database or (configured.get_secret_value() if configured else "embedded")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # drops its database, too
    try:
        asyncio.run(measure(url, arguments))
    except AdkpgError as exc:
        raise SystemExit(str(exc)) from exc


if __name__ == "__main__":
    main()
