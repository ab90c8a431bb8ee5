"""Recall of the turns that answer a question: each mode, and ADK's own memory services.

    python benchmarks/recall.py FILE [--database URL] [--conversations N] [--quick]
                                     [--json FILE] [--against FILE]

FILE has conversations with questions in LoCoMo's format (`adkpg.demo.transcript`). Each is one
user's, in a database of its own on the server of --database, else ADKPG_DATABASE_URL, else the
embedded one. Every question that names evidence is asked of its own conversation and of the next,
where nothing answers it; 50 hits are asked for. Reports recall@5, @10 and @20, hit@10, MRR, recall
within 500 and 1,000 tokens (four bytes each), how many foreign questions get no hit and how many of
20 hits they get, and how long a search takes without and with the question's embedding.

Intervals are 95 % bootstrap intervals over questions; differences are paired. A run kept with
--json is what a later one, say with other constants, is compared with by --against.
"""

import argparse
import asyncio
import json
import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from google.adk.memory import InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.demo import transcript
from adkpg.demo.figures import CUTOFFS, Answer, by_category
from adkpg.demo.transcript import Conversation, Inquiry
from adkpg.embedded import EmbeddedServer
from adkpg.embedding.default import default_embedder
from adkpg.errors import AdkpgError
from adkpg.terminal import console as standard_output
from benchmarks.contenders.recall import DEPTH, Adk, Contender, Leg, TimedEmbedder
from benchmarks.suites.recall_figures import BUDGETS, Estimate, Outcome, Report, differences

FUSED = "hybrid"
MEASURES = {
    **{f"recall@{cutoff}": f"@{cutoff}" for cutoff in CUTOFFS},
    "hit@10": "HIT@10",
    "MRR": "MRR",
    **{f"recall in {budget} tokens": f"{budget} TOK" for budget in BUDGETS},
}
COMPARED = ("recall@5", "recall@10", "recall@20", "MRR")
QUICK_CONVERSATIONS, QUICK_QUESTIONS, QUICK_RESAMPLES = 2, 25, 200
RESAMPLES = 2000


@asynccontextmanager
async def scratch(server_url: str) -> AsyncIterator[str]:
    """A database that is dropped at the end."""
    name = f"recall_{uuid.uuid4().hex[:8]}"
    admin: Any = await asyncpg.connect(server_url)
    try:
        await admin.execute(f'create database "{name}"')
        try:
            base, _, options = server_url.partition("?")
            yield f"{base.rsplit('/', 1)[0]}/{name}" + (f"?{options}" if options else "")
        finally:
            await admin.execute(f'drop database "{name}" with (force)')
    finally:
        await admin.close()


@asynccontextmanager
async def contenders(url: str) -> AsyncIterator[dict[str, Contender]]:
    """The systems by name. Vectors are left out if no embedder is installed."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        database = await stack.enter_async_context(Database(url))
        await database.upgrade()
        installed = default_embedder(database.settings.embedder)
        embedder = TimedEmbedder(installed) if installed is not None else None
        memory = PgVectorMemoryService(
            database, embedder=embedder, mode="text" if embedder is None else "hybrid"
        )
        found: dict[str, Contender] = {"text": Leg(memory, embedder, "text")}
        if embedder is not None:
            found["vector"] = Leg(memory, embedder, "vector")
            found[FUSED] = Leg(memory, embedder, "hybrid")
        found["ADK in-memory"] = Adk(InMemoryMemoryService())
        found["ADK SQLite"] = Adk(
            SqliteMemoryService(Path(directory) / "memory.db", max_results=DEPTH)
        )
        yield found


def askable(conversations: Sequence[Conversation], limit: int | None) -> list[list[Inquiry]]:
    """The questions of each conversation that name evidence."""
    return [
        [inquiry for inquiry in conversation.inquiries if inquiry.evidence][:limit]
        for conversation in conversations
    ]


async def remember(
    systems: Mapping[str, Contender], conversations: Sequence[Conversation], progress: Progress
) -> None:
    turns = sum(len(chat.turns) for each in conversations for chat in each.chats)
    for name, system in systems.items():
        bar = progress.add_task(f"{name}: turns remembered", total=turns)
        for conversation in conversations:
            for chat in conversation.chats:
                await system.remember(conversation.name, chat)
                progress.advance(bar, len(chat.turns))


async def ask(
    name: str,
    system: Contender,
    conversations: Sequence[Conversation],
    inquiries: Sequence[Sequence[Inquiry]],
    progress: Progress,
) -> list[Outcome]:
    """Asks every question of its own conversation and, if there is one, of the next."""
    bar = progress.add_task(f"{name}: questions asked", total=sum(map(len, inquiries)))
    outcomes = []
    for place, (conversation, questions) in enumerate(zip(conversations, inquiries, strict=True)):
        other = conversations[(place + 1) % len(conversations)]
        for inquiry in questions:
            recalled = await system.ask(conversation.name, inquiry.text)
            ranks = tuple(
                rank
                for rank, turn_id in enumerate(recalled.turn_ids, 1)
                if turn_id in inquiry.evidence
            )
            foreign = None
            if other is not conversation:
                found = await system.ask(other.name, inquiry.text)
                foreign = min(len(found.turn_ids), max(CUTOFFS))
            outcomes.append(
                Outcome(
                    Answer(inquiry.category, len(inquiry.evidence), ranks, recalled.search_s),
                    recalled.costs,
                    recalled.embedding_s,
                    foreign,
                )
            )
            progress.advance(bar)
    return outcomes


def table(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False, header_style="bold")


def recalls(reports: Mapping[str, Report]) -> Table:
    shown = table("SYSTEM", *MEASURES.values())
    for system, report in reports.items():
        found = report.estimates
        shown.add_row(system, *(f"{found[name].mean:.3f}" for name in MEASURES))
        shown.add_row("", *(found[name].interval for name in MEASURES), style="dim")
    return shown


def rests(reports: Mapping[str, Report]) -> Table:
    """Hits where nothing answers, and how long searches take."""
    shown = table("SYSTEM", "FOREIGN: NONE", "HITS", "SEARCH p50/p95", "WITH EMBEDDING")
    for system, report in reports.items():
        times = report.latency_ms
        shown.add_row(
            system,
            "" if report.foreign_none is None else f"{report.foreign_none:.3f}",
            "" if report.foreign_hits is None else f"{report.foreign_hits:.1f}",
            f"{times['search p50']:.1f} / {times['search p95']:.1f} ms",
            f"{times['with embedding p50']:.1f} / {times['with embedding p95']:.1f} ms",
        )
    return shown


def compared(title: str, rows: Mapping[str, Mapping[str, Estimate]]) -> Table:
    shown = table(title, *(MEASURES[name] for name in COMPARED))
    for row, found in rows.items():
        shown.add_row(row, *(f"{found[name].mean:+.3f}" for name in COMPARED))
        shown.add_row("", *(found[name].interval for name in COMPARED), style="dim")
    return shown


def categories(name: str, outcomes: Sequence[Outcome]) -> Table:
    shown = table(f"{name.upper()}, CATEGORY", "QUESTIONS", *(f"@{cutoff}" for cutoff in CUTOFFS))
    for category, found in by_category([outcome.answer for outcome in outcomes]).items():
        values = (f"{found.recall[cutoff]:.3f}" for cutoff in CUTOFFS)
        shown.add_row(str(category), str(found.questions), *values)
    return shown


def earlier(path: Path, reports: Mapping[str, Report], resamples: int) -> dict[str, Any]:
    """The differences to a run that --json kept, of the systems that both have.

    Raises:
      SystemExit: The file is no such run, or of other questions.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))["systems"]
        return {
            name: differences(report.per_question, kept[name]["per_question"], COMPARED, resamples)
            for name, report in reports.items()
            if name in kept
        }
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise SystemExit(
            f"{path} cannot be compared with ({exc}); name a file that --json wrote for the same "
            "questions."
        ) from exc


async def measure(server_url: str, arguments: argparse.Namespace) -> None:
    console = standard_output()
    quick: bool = arguments.quick
    conversations = transcript.read(arguments.file)[
        : QUICK_CONVERSATIONS if quick else arguments.conversations
    ]
    inquiries = askable(conversations, QUICK_QUESTIONS if quick else None)
    if not any(inquiries):
        raise SystemExit(f"No question of {arguments.file} names evidence; nothing to measure.")
    resamples = QUICK_RESAMPLES if quick else RESAMPLES
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    async with scratch(server_url) as url, contenders(url) as systems:
        with Progress(*columns, console=console) as progress:
            await remember(systems, conversations, progress)
            outcomes = {
                name: await ask(name, system, conversations, inquiries, progress)
                for name, system in systems.items()
            }
    reports = {name: Report.of(found, resamples) for name, found in outcomes.items()}
    best = FUSED if FUSED in reports else next(iter(reports))
    minus = {
        f"{best} minus {name}": differences(
            reports[best].per_question, report.per_question, COMPARED, resamples
        )
        for name, report in reports.items()
        if name != best
    }
    for part in (recalls(reports), rests(reports), categories(best, outcomes[best])):
        console.print(part, "")
    console.print(compared("PAIRED", minus), "")
    if arguments.against is not None:
        since = earlier(arguments.against, reports, resamples)
        console.print(compared(f"SINCE {arguments.against.name}", since))
    if arguments.json is not None:
        document = {
            "file": arguments.file.name,
            "questions": sum(map(len, inquiries)),
            "systems": {name: report.document() for name, report in reports.items()},
        }
        arguments.json.write_text(json.dumps(document), encoding="utf-8")


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
    parser.add_argument("--conversations", type=count, metavar="N", help="the first N only")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_QUESTIONS} questions of each of {QUICK_CONVERSATIONS} conversations",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--against", type=Path, metavar="FILE", help="what --json wrote before")
    arguments = parser.parse_args(words)
    configured = Settings().database_url
    url = arguments.database or (configured.get_secret_value() if configured else "embedded")
    try:
        if url != "embedded":
            asyncio.run(measure(url, arguments))
            return
        with EmbeddedServer() as server:
            asyncio.run(measure(server.url, arguments))
    except AdkpgError as exc:
        raise SystemExit(str(exc)) from exc


if __name__ == "__main__":
    main()
