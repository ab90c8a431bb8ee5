"""Embedders whose vectors a test can tell in advance."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adkpg.tooling.testing import DeterministicEmbedder

# Words of one meaning; a text means the sum of its words.
MEANINGS = ("cat kitten feline", "dog puppy hound", "car automobile vehicle", "tea oolong brew")


@dataclass
class ToyEmbedder(DeterministicEmbedder):
    """Knows the words of `MEANINGS`; a text without any is near nothing.

    Texts that share a meaning have cosines of 0.7 and more, those that share none 0.
    """

    model: str = "toy"
    dimensions: int = 8
    meanings: Sequence[str] = MEANINGS


@dataclass
class BrokenEmbedder(ToyEmbedder):
    """Fails as `failure` does, until it is mended by setting that to None."""

    failure: Callable[[list[str]], Awaitable[list[list[float]]]] | None = None

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.failure is not None:
            return await self.failure(texts)
        return await super().embed_documents(texts)


@dataclass
class GatedEmbedder(ToyEmbedder):
    """Waits, once asked, until the gate is opened."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked.set()
        await self.gate.wait()
        return await super().embed_documents(texts)


@dataclass
class SeededEmbedder:
    """Makes a text's vector from the number it ends with, around one of `clusters` centres.

    As in real models, unrelated texts have cosines near 0, and those of one cluster near 0.7.
    """

    model: str = "seeded"
    dimensions: int = 64
    clusters: int = 40

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vector(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        return self.vector(text)

    def vector(self, text: str) -> list[float]:
        found = re.search(r"(\d+)$", text)
        number = int(found.group(1)) if found else 0
        center = np.random.default_rng(number % self.clusters).standard_normal(self.dimensions)
        noise = np.random.default_rng(1_000_000 + number).standard_normal(self.dimensions)
        vector: list[float] = (center + 0.7 * noise).tolist()
        return vector

    def nearest(self, questions: list[str], texts: list[str], count: int) -> list[set[str]]:
        """Returns each question's texts of the highest cosines, computed without a database."""
        rows, asked = (
            _units([self.vector(text) for text in those]) for those in (texts, questions)
        )
        best = np.argsort(-(asked @ rows.T), axis=1)[:, :count]
        return [{texts[place] for place in places} for places in best]


def _units(vectors: list[list[float]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    rows = np.array(vectors)
    units: np.ndarray[Any, np.dtype[np.float64]] = rows / np.linalg.norm(
        rows, axis=1, keepdims=True
    )
    return units


async def raises(_texts: list[str]) -> list[list[float]]:
    raise RuntimeError("no quota")
