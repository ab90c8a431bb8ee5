"""Reranking by a cross-encoder in a file, on the CPU."""

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adkpg.embedding.embedder import well_formed
from adkpg.embedding.network import Network, files_of
from adkpg.errors import ConfigurationError, ModelError
from adkpg.outages.threads import Threads

# Keeps the tokenizer from reading what it does not use: of two texts that are both much too long it
# makes all pairs of their parts.
_TOKEN_BYTES = 32


class OnnxReranker:
    """A cross-encoder as an ONNX file, with its ``tokenizer.json``; needs ``adkpg[local]``.

    Loaded at first use, once; it runs in threads of its own, so the event loop is never blocked and
    a search that gives up waits for nothing. If the model has one output, a passage's score is its
    sigmoid; if it has two, the second's share (softmax).

    Attributes:
      model: The folder's or file's name.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        max_tokens: int = 512,
        batch_size: int = 8,
        threads: int | None = None,
    ) -> None:
        """Stores the options; nothing is loaded yet.

        Args:
          path: A folder with ``model.onnx`` (or ``onnx/model.onnx``) and ``tokenizer.json``, as
            models are exported; or the model file, with the tokenizer beside it.
          max_tokens: How many tokens of question and passage together are read, 8 or more.
          batch_size: Pairs a run, 1 or more; between two a search that gave up ends the rest.
          threads: Threads that one run may use; None is one for each core.

        Raises:
          ConfigurationError: A number is too small.
        """
        for name, value, least in (("max_tokens", max_tokens, 8), ("batch_size", batch_size, 1)):
            if value < least:
                raise ConfigurationError(
                    f"{name} of OnnxReranker is {value}; give {least} or more."
                )
        self._path = Path(path)
        self.model = self._path.name or str(path)
        self._max_tokens, self._batch_size, self._threads = max_tokens, batch_size, threads
        self._network: Network | None = None
        self._lock = threading.Lock()
        self._calls = Threads()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r})"

    async def warm(self) -> None:
        """Loads the model; the first call does, otherwise.

        Raises:
          ModelUnavailable: A package of ``adkpg[local]`` or a file is missing or broken.
        """
        await self._calls.run(self._loaded, None)

    async def scores(self, question: str, passages: list[str]) -> list[float]:
        """Returns the score of each passage in their order, from 0 to 1.

        Raises:
          ModelUnavailable: A package of ``adkpg[local]`` or a file is missing or broken.
          ModelError: The model gives something else than a score for each pair.
        """
        network = await self._calls.run(self._loaded, None)
        most = _TOKEN_BYTES * self._max_tokens
        asked = well_formed(question, most)
        pairs = await self._calls.run(
            lambda texts: [network.encode(asked, text) for text in texts],
            [well_formed(passage, most) for passage in passages],
        )
        # Equal lengths together: padding is computed like text and then thrown away.
        order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].ids))
        found = [0.0] * len(pairs)
        for start in range(0, len(order), self._batch_size):
            places = order[start : start + self._batch_size]
            scores = await self._calls.run(
                lambda some: self._scores(network, some), [pairs[place] for place in places]
            )
            for place, score in zip(places, scores, strict=True):
                found[place] = score
        return found

    def _loaded(self, _: None) -> "Network":
        with self._lock:
            if self._network is None:
                self._network = Network(
                    f"The cross-encoder {self.model!r}",
                    *files_of(type(self).__name__, self._path),
                    max_tokens=self._max_tokens,
                    threads=self._threads,
                )
            return self._network

    def _scores(self, network: Network, pairs: Sequence[Any]) -> list[float]:
        import numpy as np  # noqa: PLC0415 - of the extra adkpg[local]

        logits = np.asarray(network.run(pairs)[0], np.float64).reshape(len(pairs), -1)
        if logits.shape[1] not in (1, 2):
            raise ModelError(
                f"The cross-encoder {self.model!r} gives {logits.shape[1]} numbers for a pair; "
                "give one that gives 1 or 2."
            )
        told = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        return [_sigmoid(value) for value in told.tolist()]


def _sigmoid(value: float) -> float:
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    grown = math.exp(value)
    return grown / (1 + grown)
