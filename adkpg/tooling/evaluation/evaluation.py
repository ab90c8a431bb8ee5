"""Evaluation: the figures of a data set, or of questions about what is stored already."""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from adkpg.database import Database
from adkpg.database.scratch import scratch_database
from adkpg.embedding.default import default_embedder
from adkpg.embedding.embedder import Embedder
from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.memory.search.options import Mode, SearchOverrides
from adkpg.memory.service import PgVectorMemoryService
from adkpg.reranking import Reranker
from adkpg.settings import Settings
from adkpg.telemetry.calls import on, traced_function
from adkpg.tooling.evaluation.asking import Asked, Memory, System, Told, ask, silent
from adkpg.tooling.evaluation.dataset import DataSet, Store
from adkpg.tooling.evaluation.embedder import KeptVectors, MeasuredEmbedder
from adkpg.tooling.evaluation.figures import (
    CUTOFFS,
    DEPTH,
    RESAMPLES,
    Estimate,
    Report,
    differences,
)
from adkpg.tooling.evaluation.remembering import APP, remember

COMPARED = (*(f"recall@{cutoff}" for cutoff in CUTOFFS), "complete@40", "MRR", "NDCG@10")
"""The figures that two ways, or two runs, are compared by."""

GATES = ("recall@10", "MRR")
"""The figures that `Evaluation.losses` looks at."""


@dataclass(frozen=True)
class Miss:
    """A question whose evidence one way did not find whole among the first ten hits."""

    way: str
    question: str
    recall: float


@dataclass(frozen=True)
class Evaluation:
    """The figures of all ways to search, of the same questions.

    Attributes:
      data: The questions.
      reports: By the way's name, in the order they were asked for.
      paired: By ``a minus b``, for the last way and each other, the differences of `COMPARED`.
      misses: What was not found whole, the worst first.
    """

    data: DataSet
    reports: Mapping[str, Report]
    paired: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    misses: Sequence[Miss] = ()

    def document(self) -> dict[str, Any]:
        """Returns it as JSON values; no question is in it, but a hash of them all."""
        return {
            "format": self.data.format,
            "stores": len(self.data.stores),
            "turns": self.data.turns,
            "questions": self.data.questions,
            "unanswerable": self.data.unanswerable,
            "skipped": dict(self.data.skipped),
            "evidence_dropped": self.data.dropped,
            "turns_repeated": self.data.repeated,
            "note": self.data.note,
            "asked": self.digest,
            "systems": {name: report.document() for name, report in self.reports.items()},
            "paired": {
                pair: {name: asdict(each) for name, each in found.items()}
                for pair, found in self.paired.items()
            },
        }

    @property
    def digest(self) -> str:
        """Tells whether two runs asked the same questions for the same evidence."""
        asked = [
            [store.name, each.user_id, each.text, each.evidence, each.contains]
            for store in self.data.stores
            for each in store.questions
        ]
        return hashlib.blake2b(json.dumps(asked).encode(), digest_size=16).hexdigest()

    def since(
        self, kept: Mapping[str, Any], *, resamples: int = RESAMPLES
    ) -> dict[str, dict[str, Estimate]]:
        """Returns the differences to an earlier run, question by question.

        Args:
          kept: What `document` returned then.
          resamples: How often questions are drawn anew.

        Returns:
          By the name of a way that both have, the differences of `COMPARED`; at least one.

        Raises:
          InvalidInput: It is no such document, of other questions, or of no way that is here.
        """
        try:
            same, systems = kept["asked"] == self.digest, dict(kept["systems"])
            found = {
                name: differences(
                    report.per_question, systems[name]["per_question"], COMPARED, resamples
                )
                for name, report in self.reports.items()
                if same and name in systems
            }
        except (ValueError, KeyError, TypeError) as exc:
            raise InvalidInput(
                f"The earlier run cannot be compared with ({type(exc).__name__}: {exc}); give a "
                "file that --json wrote."
            ) from exc
        if not same:
            raise InvalidInput(
                "The earlier run is of other questions or other evidence; give one of the same "
                "file, and of as many of its questions."
            )
        if not found:
            raise InvalidInput(
                f"The earlier run has none of the ways {', '.join(self.reports)}; measure one "
                f"of {', '.join(systems)}."
            )
        return found


def evaluation_of(
    data: DataSet, answers: Mapping[str, Asked], resamples: int = RESAMPLES
) -> Evaluation:
    """Returns the figures of what each way answered; the last is compared with the others."""
    reports = {name: asked.report(resamples) for name, asked in answers.items()}
    *others, best = reports
    paired = {
        f"{best} minus {name}": differences(
            reports[best].per_question, reports[name].per_question, COMPARED, resamples
        )
        for name in others
    }
    questions = [each for store in data.stores for each in store.questions if each.answerable]
    misses = [
        Miss(name, question.text, recall)
        for name, report in reports.items()
        for question, recall in zip(questions, report.per_question["recall@10"], strict=True)
        if recall < 1
    ]
    return Evaluation(data, reports, paired, sorted(misses, key=lambda miss: miss.recall))


def losses(since: Mapping[str, Mapping[str, Estimate]]) -> list[str]:
    """Returns a sentence for each figure of `GATES` that got worse beyond chance.

    Args:
      since: The differences of each way, as `Evaluation.since` returns them.
    """
    return [
        f"{name} of {way} fell by {-found[name].mean:.3f} ({found[name].interval})."
        for way, found in since.items()
        for name in GATES
        if name in found and found[name].high < 0
    ]


async def evaluate(
    data: DataSet,
    systems: Mapping[str, System],
    *,
    user_id: str | None = None,
    told: Told = silent,
    resamples: int = RESAMPLES,
) -> Evaluation:
    """Asks all questions in each way, and returns the figures.

    Args:
      data: The questions; their stores are remembered already.
      systems: By name, the ways to search; the last one is compared with the others.
      user_id: As for `asking.ask`.
      told: Is told the progress.
      resamples: How often questions are drawn anew for an interval.

    Raises:
      InvalidInput: There is no question that something answers.
    """
    require_questions(data)
    answers = {
        name: await ask(name, system, data.stores, user_id=user_id, told=told)
        for name, system in systems.items()
    }
    return evaluation_of(data, answers, resamples)


def require_questions(data: DataSet) -> None:
    """Raises unless something can be measured.

    Raises:
      InvalidInput: No question names what answers it; the message says why those were skipped.
    """
    if not data.questions:
        raise InvalidInput(
            "No question of the file names evidence that exists"
            + "".join(f"; {count} skipped: {reason}" for reason, count in data.skipped.items())
            + ". There is nothing to measure."
        )


@traced_function(on("memories"))
async def evaluate_stored(
    data: DataSet,
    *,
    memory: PgVectorMemoryService,
    app_name: str,
    user_id: str | None = None,
    modes: Sequence[Mode] = ("hybrid",),
    reranked: bool = False,
    gathered: bool = False,
    told: Told = silent,
) -> Evaluation:
    """Asks questions about what is stored, such as a team's saved ones; it writes nothing.

    Args:
      data: Questions without conversations, as `read` or `parsed` returns them.
      memory: The service that answers.
      app_name: The app.
      user_id: Whose memories a question is about that does not say it; None is what the app knows.
      modes: The ways to search, each once.
      reranked: Measures each mode a second time, with the service's reranker; without it none is
        asked.
      gathered: Measures each mode also with all that it gathers (`gather=True`).
      told: Is told the progress.

    Raises:
      InvalidInput: There is no question that something answers, or there are conversations.
      ModelError: The embedder failed, and vectors alone were asked for.
      ConfigurationError: The service has no embedder, and vectors alone were asked for.
    """
    if data.turns:
        raise InvalidInput(
            "The file brings conversations of its own, which are remembered apart; leave the app "
            'out, or give questions alone: [{"q": ..., "evidence": [...]}].'
        )
    systems = ways(memory, app_name, modes, reranked=reranked, gathered=gathered)
    return await evaluate(data, systems, user_id=user_id, told=told)


def ways(
    memory: PgVectorMemoryService,
    app_name: str,
    modes: Sequence[Mode],
    *,
    embedder: MeasuredEmbedder | None = None,
    reranked: bool = False,
    gathered: bool = False,
) -> dict[str, System]:
    """Returns the ways to ask a service, by name: its modes, each gathered and reranked if said."""
    found: dict[str, System] = {}
    for mode in dict.fromkeys(modes):
        options: dict[str, SearchOverrides] = {mode: {"mode": mode, "rerank": False}}
        if gathered:
            options[f"{mode} gathered"] = {"mode": mode, "rerank": False, "gather": True}
        if reranked:
            options[f"{mode} reranked"] = {"mode": mode, "rerank": True}
        for name, overrides in options.items():
            found[name] = Memory(memory, app_name, embedder=embedder, overrides=overrides)
    return found


@asynccontextmanager
async def remembered(
    server_url: str,
    stores: Sequence[Store],
    *,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    words: bool = False,
    vectors: Path | None = None,
    told: Told = silent,
) -> AsyncIterator[tuple[PgVectorMemoryService, MeasuredEmbedder | None]]:
    """Yields a service that remembers some stores, in a database that is dropped afterwards.

    Each store is a user of the app `remembering.APP`.

    Args:
      server_url: A database of the server, by a role that may create others; or ``embedded``.
      settings: None are those of the environment.
      embedder: None is ``ADKPG_EMBEDDER``.
      reranker: The service's.
      words: Whether nothing is embedded.
      vectors: A file that keeps vectors for the next run.
      told: Is told the progress.

    Raises:
      PermissionDenied: The role may not create databases.
      ModelError: The embedder failed.
      InvalidInput: `vectors` cannot be used.
    """
    settings = _patient(settings or Settings())
    if words:
        embedder = None
    elif embedder is None:
        embedder = default_embedder(settings.embedder)
    total = sum(len(chat.turns) for store in stores for chat in store.chats)
    kept = KeptVectors(vectors, embedder) if vectors and embedder else None
    measured = None
    if embedder is not None:
        measured = MeasuredEmbedder(
            embedder,
            kept=kept,
            told=lambda done: told("texts embedded", done, max(done, total)),
        )
    try:
        async with (
            scratch_database(server_url, settings, prefix="adkpg_evaluation") as url,
            Database(url, settings=settings, auto_upgrade=True) as database,
        ):
            writer = PgVectorMemoryService(database, mode="text", reranker=reranker)
            await remember(writer, stores, told=told)
            if measured is None:
                await writer.warm(timeout_s=settings.embedding_timeout_s)
                yield writer, None
                return
            service = PgVectorMemoryService(database, embedder=measured, reranker=reranker)
            await service.warm(timeout_s=settings.embedding_timeout_s)
            await service.embed_pending()
            yield service, measured
    finally:
        if kept is not None:
            kept.close()


@traced_function(on("memories"))
async def evaluate_apart(
    data: DataSet,
    *,
    server_url: str,
    modes: Sequence[Mode] = ("text", "vector", "hybrid"),
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    gathered: bool = False,
    vectors: Path | None = None,
    told: Told = silent,
) -> Evaluation:
    """Remembers a data set in a database of its own, asks its questions, and drops the database.

    Args:
      data: Conversations with questions.
      server_url: A database of the server, by a role that may create others; or ``embedded``.
      modes: The ways to search, each once.
      settings: None are those of the environment.
      embedder: None is ``ADKPG_EMBEDDER``.
      reranker: Each mode is measured with it, too.
      gathered: Measures each mode also with all that it gathers (`gather=True`).
      vectors: A file that keeps vectors for the next run.
      told: Is told the progress.

    Raises:
      InvalidInput: There is no question that something answers, or there are no conversations.
      ConfigurationError: Vectors are asked for, and there is no embedder.
    """
    require_conversations(data)
    modes = list(dict.fromkeys(modes))
    async with remembered(
        server_url,
        data.stores,
        settings=settings,
        embedder=embedder,
        reranker=reranker,
        words=modes == ["text"],
        vectors=vectors,
        told=told,
    ) as (memory, measured):
        if measured is None and modes != ["text"]:
            raise ConfigurationError(
                f"{', '.join(modes)} need an embedder, and none is installed; run pip install "
                "'adkpg[local]', or measure text alone."
            )
        systems = ways(
            memory,
            APP,
            modes,
            embedder=measured,
            reranked=reranker is not None,
            gathered=gathered,
        )
        return await evaluate(data, systems, told=told)


def require_conversations(data: DataSet) -> None:
    """Raises unless there is something to remember and to ask.

    Raises:
      InvalidInput: There is none.
    """
    if not any(store.chats for store in data.stores):
        raise InvalidInput(
            "The file has questions alone; say whose stored memories answer them, with --app and "
            "--user, or add the conversations."
        )
    require_questions(data)


def _patient(settings: Settings) -> Settings:
    """Returns settings under which a busy machine falsifies no figure."""
    return settings.model_copy(
        update={
            "row_level_security": False,
            "remember": False,  # all that is said, as it is
            "direct_url": None,  # which leads to another database
            "read_url": None,
            "max_results": max(settings.max_results, 2 * DEPTH),
            "embedding_batch_size": max(settings.embedding_batch_size, 256),
            "embedding_timeout_s": max(settings.embedding_timeout_s, 600),
            "search_timeout_s": max(settings.search_timeout_s, 60),
            "rerank_timeout_s": max(settings.rerank_timeout_s, 60),
            "job_lease_s": max(settings.job_lease_s, 1800),
        }
    )
