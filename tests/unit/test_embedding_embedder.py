import asyncio
import math
from typing import Any

import pytest

from adkpg.embedding import Embedder
from adkpg.embedding.embedder import (
    DEFAULT_WEIGHT,
    embed_checked,
    embed_query_checked,
    weight_of,
)
from adkpg.errors import (
    ConfigurationError,
    ModelError,
    ModelUnavailable,
)


class Scripted:
    """An embedder that returns what it is told to, or raises it, and keeps what it was asked."""

    model = "scripted"
    dimensions = 2

    def __init__(self, *answer: Any, weight: Any = None) -> None:
        self.answer = list(answer)
        self.asked: list[str] = []
        if weight is not None:
            self.weight = weight

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        for each in self.answer:
            if isinstance(each, BaseException):
                raise each
        return self.answer

    async def embed_query(self, text: str) -> list[float]:
        return (await self.embed_documents([text]))[0]


def test_any_object_with_the_four_names_is_an_embedder() -> None:
    assert isinstance(Scripted(), Embedder)
    assert not isinstance(object(), Embedder)


async def test_good_vectors_come_back_as_floats() -> None:
    vectors = await embed_checked(Scripted((1, 2), [0.0, -3.5]), ["a", "b"])
    assert vectors == [[1.0, 2.0], [0.0, -3.5]]
    assert all(type(number) is float for vector in vectors for number in vector)
    assert await embed_query_checked(Scripted([0.5, 0.5]), "q") == [0.5, 0.5]


async def test_no_texts_cost_no_call() -> None:
    embedder = Scripted(RuntimeError("must not be called"))
    assert await embed_checked(embedder, []) == []
    assert embedder.asked == []


async def test_lone_surrogates_never_reach_the_embedder() -> None:
    embedder = Scripted([1.0, 1.0])
    await embed_checked(embedder, ["a\ud800b \U0001f600"])
    await embed_query_checked(embedder, "\udfff")
    assert embedder.asked == ["a?b \U0001f600", "?"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], "0 vectors for 1 texts"),
        ([[1.0, 0.0], [1.0, 0.0]], "2 vectors for 1 texts"),
        ([[1.0]], "set dimensions=1"),
        ([[1.0, 2.0, 3.0]], "set dimensions=3"),
        ([[]], "vector of 0 numbers"),
        ([[float("nan"), 1.0]], "no cosine"),
        ([[float("inf"), 1.0]], "no cosine"),
        ([[0.0, -0.0]], "no cosine"),
        ([[1e-30, 0.0]], "no cosine"),
        ([[1e30, 0.0]], "no cosine"),
        ([None], "lists of numbers"),
        ([["x", 1.0]], "lists of numbers"),
        ([[10**400, 1.0]], "lists of numbers"),
        ([[None, 1.0]], "lists of numbers"),
        ([1.0], "lists of numbers"),
    ],
)
async def test_vectors_that_cannot_be_stored_are_a_mismatch(
    answer: list[Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        await embed_checked(Scripted(*answer), ["a"])
    if len(answer) == 1:
        with pytest.raises(ModelError, match=message):
            await embed_query_checked(Scripted(*answer), "a")


@pytest.mark.parametrize("error", [RuntimeError("x"), ValueError("x"), TimeoutError()])
async def test_a_foreign_error_becomes_an_embedding_error(error: Exception) -> None:
    for call in (embed_checked(Scripted(error), ["a"]), embed_query_checked(Scripted(error), "a")):
        with pytest.raises(ModelError, match=type(error).__name__) as caught:
            await call
        assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [ModelUnavailable("x"), asyncio.CancelledError()])
async def test_our_errors_and_cancellation_pass_unchanged(error: BaseException) -> None:
    for call in (embed_checked(Scripted(error), ["a"]), embed_query_checked(Scripted(error), "a")):
        with pytest.raises(type(error)) as caught:
            await call
        assert caught.value is error


def test_the_weight_is_the_embedders_own_or_that_of_most() -> None:
    assert weight_of(Scripted()) == DEFAULT_WEIGHT
    assert weight_of(Scripted(weight=0.55)) == 0.55
    for least_or_most in (0, 10):
        assert weight_of(Scripted(weight=least_or_most)) == least_or_most


@pytest.mark.parametrize(
    "weight", [-0.01, 10.01, math.nan, math.inf, -math.inf, "0.2", True, [0.2], 10**309]
)
def test_a_weight_that_is_no_number_from_0_to_10_is_refused(weight: object) -> None:
    with pytest.raises(ConfigurationError, match="The weight of embedder 'scripted' is"):
        weight_of(Scripted(weight=weight))
