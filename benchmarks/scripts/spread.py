"""Spread answers: what facts, session summaries and gathering do for answers that many turns hold.

    python -m benchmarks.scripts.spread FILE [--json RESULT]

FILE is LoCoMo's own, which comes with what its authors' model drew from each turn (``observation``)
and wrote of each session (``session_summary``): so the facts and summaries are of the kind that an
extractor makes, without asking a model here. Evidence counts as found with the turn itself, or with
a fact that was drawn from it. A summary rests on a whole session, so it counts for no turn; what it
is worth is told by the words of the answer, which count wherever they stand (questions of time are
left out there, as their answers are dates that no turn says).
"""

import argparse
import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from adkpg import SearchFilters
from adkpg.embedding import LocalEmbedder
from adkpg.facts import Add, Extraction, Facts
from adkpg.facts.extractor import KnownFact, Summary, Turn
from adkpg.keys import SessionKey
from adkpg.memory.records import text_of
from adkpg.memory.search.hits import by_passage, tokens
from adkpg.memory.service import PgVectorMemoryService
from adkpg.tooling.evaluation.asking import Found, Recalled, outcome
from adkpg.tooling.evaluation.dataset import Question, Store
from adkpg.tooling.evaluation.evaluation import remembered
from adkpg.tooling.evaluation.figures import Outcome, difference, estimate
from adkpg.tooling.evaluation.reading import read
from adkpg.tooling.evaluation.remembering import APP

MEASURES = (
    "recall@10",
    "complete@40",
    "recall in 1000 tokens",
    "complete in 1000 tokens",
    "recall in 4000 tokens",
    "complete in 4000 tokens",
)
ANSWER_BUDGETS = (1000, 4000)
NO_WORDS = frozenset(
    {"a", "an", "and", "are", "at", "by", "for", "from", "has", "he", "her", "his", "in", "is"}
    | {"of", "on", "or", "she", "that", "the", "their", "to", "was", "with"}
)


@dataclass(frozen=True)
class Way:
    """A way of asking."""

    name: str
    kinds: frozenset[str]
    gather: bool = False


WAYS = (
    Way("turns", frozenset({"turn"})),
    Way("turns, gathered", frozenset({"turn"}), gather=True),
    Way("facts alone", frozenset({"fact"})),
    Way("turns and facts", frozenset({"turn", "fact"})),
    Way("turns and summaries", frozenset({"turn", "summary"})),
    Way("all three", frozenset({"turn", "fact", "summary"})),
    Way("all three, gathered", frozenset({"turn", "fact", "summary"}), gather=True),
)


class Written:
    """What LoCoMo's authors drew from the turns of a conversation, as an extractor gives it."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.drawn: dict[str, list[str]] = {}
        for session in entry["observation"].values():
            for notes in session.values():
                for text, named in notes:
                    for turn_id in re.findall(r"D\d+:\d+", str(named)):
                        self.drawn.setdefault(turn_id, []).append(text)
        self._summaries = entry["session_summary"]

    async def extract(self, turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
        """Returns what was drawn from the turns; of several, from all that are there."""
        sources: dict[str, list[str]] = {}
        for turn in turns:
            for text in self.drawn.get(turn.event_id or "", []):
                sources.setdefault(text, []).append(turn.memory_id)
        return Extraction(tuple(Add(text, tuple(ids)) for text, ids in sources.items()))

    async def summarize(self, turns: Sequence[Turn]) -> Summary:
        """Returns what was written of the turns' session."""
        assert turns[0].event_id is not None
        number = turns[0].event_id.removeprefix("D").partition(":")[0]
        return Summary(self._summaries[f"session_{number}_summary"])


def words(text: str) -> set[str]:
    """Returns the words of a text that tell something."""
    return set(re.findall(r"[a-z0-9]+", text.lower())) - NO_WORDS


def answer_words(question: Question, found: Sequence[Found], budget: int) -> float | None:
    """Returns the share of the answer's words in the hits that fit a budget; None without any."""
    wanted = words(question.answer or "")
    if not wanted or question.category in ("temporal", "adversarial"):
        return None
    said: set[str] = set()
    for hit in found:
        if hit.cost <= budget:
            budget -= hit.cost
            said |= words(hit.text)
    return len(wanted & said) / len(wanted)


async def ask(
    memory: PgVectorMemoryService, store: Store, question: Question, way: Way, written: Written
) -> tuple[Outcome, list[float | None]]:
    """Asks one question in one way; returns the places of its evidence, and the answer's words."""
    hits = await memory.search(
        app_name=APP,
        user_id=store.name,
        query=question.text,
        top_k=40,
        now=question.moment,
        filters=SearchFilters(kinds=tuple(way.kinds)),
        gather=way.gather,
    )
    if way.gather:
        hits = sorted(hits, key=lambda hit: hit.score, reverse=True)
    found = []
    for hit in hits:
        text = text_of(hit.memory.content)
        names = {hit.memory.event_id, *hit.folded}
        if hit.memory.kind == "fact":
            names |= {name for name, drawn in written.drawn.items() if text in drawn}
        found.append(
            Found(
                names=frozenset(name for name in names if name),
                text=text,
                cost=tokens(hit.memory),
                short_cost=tokens(by_passage(hit).memory),
                session_id=hit.memory.session_id,
            )
        )
    told = outcome(question, Recalled(tuple(found), search_s=0.0), {})
    return told, [answer_words(question, found, budget) for budget in ANSWER_BUDGETS]


async def measure(stores: Sequence[Store], entries: Sequence[Any]) -> dict[str, Any]:
    """Asks all questions in all ways; returns the figures by way, and by all or multi-hop."""
    written = {store.name: Written(entry) for store, entry in zip(stores, entries, strict=True)}
    embedder = LocalEmbedder()
    outcomes: dict[str, list[Outcome]] = {way.name: [] for way in WAYS}
    answers: dict[str, list[list[float | None]]] = {way.name: [] for way in WAYS}
    counts = {"turns": sum(len(chat.turns) for store in stores for chat in store.chats)}
    with Progress(transient=True) as progress:
        async with remembered("embedded", stores, embedder=embedder) as (memory, _):
            for store in stores:
                facts = Facts(memory, extractor=written[store.name])
                await facts.enable(APP)
                for chat in progress.track(store.chats, description=f"facts of {store.name}"):
                    scope: SessionKey = {
                        "app_name": APP,
                        "user_id": store.name,
                        "session_id": chat.id,
                    }
                    report = await facts.extract(**scope)
                    counts["facts"] = counts.get("facts", 0) + report.added
                    summary = await facts.summarize(**scope)
                    counts["summaries"] = counts.get("summaries", 0) + (summary.memory is not None)
            await memory.embed_pending()
            for store in stores:
                end = max(turn.moment for chat in store.chats for turn in chat.turns)
                asked = [question for question in store.questions if question.answerable]
                for question in progress.track(asked, description=f"questions of {store.name}"):
                    question = replace(question, moment=question.moment or end)
                    for way in WAYS:
                        told, shares = await ask(memory, store, question, way, written[store.name])
                        outcomes[way.name].append(told)
                        answers[way.name].append(shares)
    return {"counts": counts, "all": _figures(outcomes, answers, None)} | {
        category: _figures(outcomes, answers, category) for category in ("multi-hop",)
    }


def _figures(
    outcomes: Mapping[str, Sequence[Outcome]],
    answers: Mapping[str, Sequence[Sequence[float | None]]],
    category: str | None,
) -> dict[str, dict[str, list[float]]]:
    """Returns by way each figure, with the interval of its difference to the first way."""
    figures: dict[str, dict[str, list[float]]] = {}
    values: dict[str, dict[str, list[float]]] = {}
    for name, told in outcomes.items():
        kept = [n for n, each in enumerate(told) if category in (None, each.category)]
        measures = [told[n].measures() for n in kept]
        values[name] = {each: [one[each] for one in measures] for each in MEASURES}
        for place, budget in enumerate(ANSWER_BUDGETS):
            shares = [answers[name][n][place] for n in kept]
            values[name][f"answer in {budget} tokens"] = [s for s in shares if s is not None]
    first = values[WAYS[0].name]
    for name, by_measure in values.items():
        figures[name] = {}
        for each, ours in by_measure.items():
            mean = estimate(ours).mean
            low, high = 0.0, 0.0
            if name != WAYS[0].name:
                between = difference(ours, first[each])
                low, high = between.low, between.high
            figures[name][each] = [round(one, 3) for one in (mean, low, high)]
    return figures


def show(result: Mapping[str, Any]) -> None:
    """Prints the figures as tables."""
    console = Console(width=150)
    console.print(", ".join(f"{count:,} {what}" for what, count in result["counts"].items()))
    for category in ("all", "multi-hop"):
        names = list(result[category][WAYS[0].name])
        table = Table(category.upper(), *(name.upper() for name in names))
        for way, figures in result[category].items():
            cells = [
                f"{value:.3f}" + (f"\n[{low:+.3f}, {high:+.3f}]" if (low, high) != (0, 0) else "")
                for value, low, high in figures.values()
            ]
            table.add_row(way, *(cell.replace("[", r"\[") for cell in cells))
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    arguments = parser.parse_args()
    stores = read(arguments.file).stores
    result = asyncio.run(measure(stores, json.loads(arguments.file.read_text("utf-8"))))
    show(result)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
