"""Apps to change the model of, and what the database then says of them."""

from dataclasses import dataclass, field

import asyncpg

from adkpg import PgVectorMemoryService
from tests.fakes.conversation import entry
from tests.fakes.toys import ToyEmbedder

TEXTS = [f"the {word} of number {number}" for number in range(4) for word in ("kitten", "hound")]


@dataclass
class PickyEmbedder(ToyEmbedder):
    """Refuses texts with a word, and every batch that such a text is in."""

    refused: str = "hound"

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if any(self.refused in text for text in texts):
            raise ValueError("too long")
        return await super().embed_documents(texts)


@dataclass
class FailingEmbedder(ToyEmbedder):
    """Is down once it has answered some batches."""

    batches: int = 0

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if len(self.documents) == self.batches:
            raise ConnectionError("down")
        return await super().embed_documents(texts)


@dataclass
class CrookedEmbedder(ToyEmbedder):
    """Returns whatever it is told to."""

    answer: list[list[float]] = field(default_factory=list)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.documents.append(texts)
        return self.answer * len(texts)

    async def embed_query(self, text: str) -> list[float]:
        self.questions.append(text)
        return self.answer[0] if self.answer else []


async def remember(
    memory: PgVectorMemoryService, *texts: str, app: str = "app", user: str | None = "user"
) -> None:
    await memory.add_memory(
        app_name=app, user_id=user, memories=[entry(text, f"{user}: {text}") for text in texts]
    )


def asked_of(*embedders: ToyEmbedder) -> list[str]:
    """All texts that were embedded, once for each time."""
    return [text for each in embedders for batch in each.documents for text in batch]


async def vectors(connection: asyncpg.Connection, name: str, app: str = "app") -> int:
    """How many vectors of a model an app has."""
    count: int = await connection.fetchval(
        "SELECT count(*) FROM memory_vectors JOIN embedding_models USING (model_id)"
        " WHERE name = $1 AND app_name = $2",
        name,
        app,
    )
    return count


async def jobs(connection: asyncpg.Connection) -> int:
    count: int = await connection.fetchval("SELECT count(*) FROM memory_jobs WHERE work = 'embed'")
    return count


async def active(connection: asyncpg.Connection, app: str = "app") -> str | None:
    """The name of an app's active model."""
    name: str | None = await connection.fetchval(
        "SELECT name FROM embedding_models JOIN app_settings USING (model_id) WHERE app_name = $1",
        app,
    )
    return name


async def covered(connection: asyncpg.Connection) -> bool:
    """Whether every memory has a vector of its app's active model, or a job that will make it."""
    missing: int = await connection.fetchval(
        "SELECT count(*) FROM memories m JOIN app_settings a USING (app_name) WHERE NOT EXISTS ("
        " SELECT FROM memory_vectors v WHERE (v.app_name, v.user_id, v.position, v.model_id)"
        " = (m.app_name, m.user_id, m.position, a.model_id)) AND NOT EXISTS ("
        " SELECT FROM memory_jobs j WHERE (j.app_name, j.user_id, j.position, j.work, j.dead)"
        " = (m.app_name, m.user_id, m.position, 'embed', false))"
    )
    return missing == 0
