"""Embedders whose vectors a test can tell in advance."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Words of one meaning; a text means the sum of its words.
MEANINGS = ("cat kitten feline", "dog puppy hound", "car automobile vehicle", "tea oolong brew")
_AXIS = {word: axis for axis, words in enumerate(MEANINGS) for word in words.split()}


@dataclass
class ToyEmbedder:
    """Knows the words of `MEANINGS`; a text without any is near nothing.

    Attributes:
      model: The model's name.
      dimensions: Length of the vectors, at least two more than there are meanings.
      floor: Between texts that share a meaning (0.7 and more) and those that share none (0).
      documents: Every batch that was asked for, in order.
      questions: Every question that was asked for, in order.
    """

    model: str = "toy"
    dimensions: int = 8
    floor: float = 0.5
    documents: list[list[str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.documents.append(texts)
        return [self.vector(text, nothing=self.dimensions - 1) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        self.questions.append(text)
        return self.vector(text, nothing=self.dimensions - 2)

    def vector(self, text: str, *, nothing: int) -> list[float]:
        vector = [0.0] * self.dimensions
        known = [_AXIS[word] for word in re.findall(r"\w+", text.lower()) if word in _AXIS]
        for axis in known or [nothing]:
            vector[axis] += 1.0
        return vector


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
    floor: float = -1.0

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
