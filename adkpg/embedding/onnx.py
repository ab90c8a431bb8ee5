"""Embeddings of any sentence-transformers model that was exported to ONNX, on the CPU."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from adkpg.embedding.callable import CallableEmbedder
from adkpg.embedding.embedder import DEFAULT_WEIGHT, DEFAULT_WINDOW, well_formed
from adkpg.embedding.export import POOLINGS, read_export
from adkpg.embedding.network import Network, files_of
from adkpg.errors import ConfigurationError, ModelUnavailable

# Keeps the tokenizer from reading megabytes of which it uses a few hundred tokens.
_TOKEN_BYTES = 64
# What a tokenizer adds to a text, of which no token is less than a character of ASCII.
_ADDED_TOKENS = 4
# With padding. Measured with one thread, texts/s: of 16 tokens 288 in sixteens, 145 singly; of 64,
# 64 in twos, 56 in 32s; of 128, 29 singly, 23 in sixteens; of 256 as many either way.
_BATCH_TOKENS = 256
# Texts whose lengths are sorted together.
_CALL_SIZE = 2_048
_LEAST_TOKENS = 16
_POOLED = "sentence_embedding"  # an output that some exports have: all steps are taken
_TOKENS_APART = 3  # axes of an output with a vector for each token


class OnnxEmbedder(CallableEmbedder):
    """Embeds with a model in a folder, without a network or a service; needs ``adkpg[local]``.

    The folder is one that sentence-transformers or optimum export: ``model.onnx`` (or
    ``onnx/model.onnx``) and ``tokenizer.json`` (or ``vocab.txt``). Its JSON files say how long the
    vectors are, how they are pooled, how many tokens are read, and what is put before questions
    and texts. Arguments win over them.

    The model is loaded at first use, once, and runs in threads, so the event loop is never blocked.
    Vectors have unit length. A text's vector does not depend on the texts it is batched with.
    Memories that the model does not read to their end, by its own tokenizer, are embedded in
    passages. onnxruntime's telemetry is switched off, unless ``ORT_DISABLE_TELEMETRY`` is set or
    onnxruntime was imported before.

    Attributes:
      model: The folder's name, if none was given.
      dimensions: Length d of the vectors.
      weight: How much the cosine counts in a search, see `embedder.weight_of`.
      window: Estimated tokens of a memory up to which it has one vector.
      languages: Codes of the languages that the model knows; None is any.
    """

    _max_batch_bytes = 32_000_000

    def __init__(
        self,
        path: Path | str,
        *,
        model: str | None = None,
        dimensions: int | None = None,
        pooling: str | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        max_tokens: int | None = None,
        weight: float = DEFAULT_WEIGHT,
        window: int = DEFAULT_WINDOW,
        languages: Sequence[str] | None = None,
        threads: int | None = None,
        cache_size: int = 1024,
    ) -> None:
        """Reads what the folder says of the model; the model is not loaded yet.

        Args:
          path: The folder; or the model file in it or in its ``onnx``, where there are several.
          model: Name stored with each vector.
          dimensions: Length of the vectors, 1 or more.
          pooling: How the vectors of a text's tokens become one: ``mean``, ``cls``, ``max`` or
            ``lasttoken``. A model that gives a ``sentence_embedding`` needs none.
          query_prompt: What is put before a question, such as ``query: ``.
          document_prompt: What is put before a text, such as ``passage: ``.
          max_tokens: What the model reads of a text, 16 or more; 512 if nothing says.
          weight: How much the cosine counts in a search; see docs/embedders.md.
          window: Estimated tokens of a memory up to which it has one vector, 16 or more.
          languages: Codes such as ``en``; None is any.
          threads: Threads that one batch may use; None is one for each core.
          cache_size: Vectors of documents remembered; 0 remembers none.

        Raises:
          ConfigurationError: There is no such folder, its files or the arguments do not say what
            is needed, or a number is too small.
        """
        path = Path(path)
        folder = path.parent if path.is_file() else path
        if folder.name == "onnx":
            folder = folder.parent
        if not path.exists():
            raise ConfigurationError(f"There is no {path}; give the folder of an exported model.")
        told = read_export(folder)
        self._path = path
        self._max_tokens = max_tokens or told.max_tokens
        self._pooling = pooling or told.pooling
        self._beyond = told.beyond
        self._lowercase = told.lowercase
        self._query_prompt = told.query_prompt if query_prompt is None else query_prompt
        self._document_prompt = told.document_prompt if document_prompt is None else document_prompt
        self._threads_a_run = threads
        self._lock = threading.Lock()
        self._network: Network | None = None
        self.languages = languages
        dimensions = told.dimensions if dimensions is None else dimensions
        if dimensions is None:
            raise ConfigurationError(
                f"{folder} does not say how long the model's vectors are; give dimensions."
            )
        if self._max_tokens < _LEAST_TOKENS:
            raise ConfigurationError(
                f"max_tokens of {type(self).__name__} is {self._max_tokens}; give "
                f"{_LEAST_TOKENS} or more."
            )
        if pooling is not None and pooling not in POOLINGS:
            raise ConfigurationError(
                f"There is no pooling {pooling!r}; choose {', '.join(POOLINGS)}."
            )
        super().__init__(
            partial(self._vectors, self._document_prompt),
            model=model or folder.resolve().name,
            dimensions=dimensions,
            weight=weight,
            window=window,
            batch_size=_CALL_SIZE,
            concurrency=1,
            timeout_s=None,
            max_retries=0,
            cache_size=cache_size,
            max_text_bytes=_TOKEN_BYTES * self._max_tokens,
        )

    async def warm(self) -> None:
        """Loads the model; the first call does, otherwise.

        Raises:
          ModelUnavailable: A package of ``adkpg[local]`` or a file is missing or broken, or the
            model is of a kind that is not read here.
        """
        await asyncio.to_thread(self._loaded)

    async def embed_query(self, text: str) -> list[float]:
        """Returns the unit vector ``[d]`` of a question, which waits for no batch of texts.

        Raises:
          ModelUnavailable: As `warm` says.
        """
        text = well_formed(text, _TOKEN_BYTES * self._max_tokens)
        return (await self._vectors(self._query_prompt, [text]))[0]

    def fits(self, text: str) -> bool:
        """Tells whether the model reads a text to its end, by its own tokenizer.

        It blocks until the model is loaded: `warm` first.

        Raises:
          ModelUnavailable: As `warm` says.
        """
        prompt = max(self._document_prompt, self._query_prompt, key=len)
        text = f"{prompt}{text}"
        if text.isascii() and len(text) + _ADDED_TOKENS <= self._max_tokens:
            return True
        return super().fits(text) and not self._encoded(self._loaded(), text).overflowing

    async def _vectors(self, prompt: str, texts: list[str]) -> list[list[float]]:
        network = await asyncio.to_thread(self._loaded)
        encoded = await asyncio.to_thread(
            lambda: [self._encoded(network, f"{prompt}{text}") for text in texts]
        )
        # Equal lengths together: padding is computed like text and then thrown away.
        order = sorted(range(len(texts)), key=lambda place: len(encoded[place].ids))
        vectors: list[list[float]] = [[]] * len(texts)
        for places in _batches(order, [len(each.ids) for each in encoded]):
            rows = await asyncio.to_thread(self._run, network, [encoded[p] for p in places])
            for place, row in zip(places, rows, strict=True):
                vectors[place] = row
        return vectors

    def _encoded(self, network: Network, text: str) -> Any:
        return network.encode(text.lower() if self._lowercase else text)

    def _run(self, network: Network, encodings: Sequence[Any]) -> list[list[float]]:
        import numpy as np  # noqa: PLC0415 - of the extra adkpg[local]

        rows, mask = network.run(encodings)
        if network.rank == _TOKENS_APART:
            rows = _pooled(rows, mask, self._pooling)
        rows = rows.astype(np.float64)
        units: list[list[float]] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).tolist()
        return units

    def _loaded(self) -> Network:
        with self._lock:
            if self._network is None:
                network = self._load()
                apart = network.rank == _TOKENS_APART
                if apart and (self._beyond or self._pooling not in POOLINGS):
                    raise ModelUnavailable(
                        f"Model {self.model!r} makes vectors by "
                        f"{', '.join(self._beyond) or self._pooling or 'a pooling not told'}, "
                        f"which is not done here; give pooling, or export it with {_POOLED}."
                    )
                self._network = network
            return self._network

    def _load(self) -> Network:
        return Network(
            f"Model {self.model!r}",
            *files_of(type(self).__name__, self._path),
            max_tokens=self._max_tokens,
            threads=self._threads_a_run,
            output=_POOLED,
        )


def _batches(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Splits texts in the order of their lengths, so that a batch has few tokens, padded."""
    batch: list[int] = []
    for position in order:
        if batch and (len(batch) + 1) * lengths[position] > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def _pooled(hidden: Any, mask: Any, pooling: str | None) -> Any:
    """Makes one vector of those of each text's tokens: ``[n, d]`` of ``[n, m, d]``."""
    import numpy as np  # noqa: PLC0415 - of the extra adkpg[local]

    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "lasttoken":
        return hidden[np.arange(len(hidden)), mask.sum(axis=1) - 1]
    if pooling == "max":
        return np.where(mask[:, :, None] == 1, hidden, -np.inf).max(axis=1)
    # The mean's divisor is left out, since only the direction is kept.
    return (hidden * mask[:, :, None]).sum(axis=1)
