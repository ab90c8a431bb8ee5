"""An embedder whose work is measured, and kept in a file from one run to the next."""

import hashlib
import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from adkpg.embedding.embedder import Embedder
from adkpg.errors import InvalidInput

_KEY_BYTES = 16


class KeptVectors:
    """Vectors of one model in a file, by a hash of their texts; the file holds no one's words.

    Args:
      path: The file; it is made if it is missing.
      embedder: Whose vectors they are.

    Raises:
      InvalidInput: The file holds something else, or cannot be written.
    """

    def __init__(self, path: Path, embedder: Embedder) -> None:
        self._pack = struct.Struct(f"<{_KEY_BYTES}s{embedder.dimensions}f")
        self._vectors: dict[bytes, list[float]] = {}
        head = json.dumps({"model": embedder.model, "dimensions": embedder.dimensions}).encode()
        head += b"\n"
        try:
            content = path.read_bytes() if path.exists() else b""
            if content and not content.startswith(head):
                raise InvalidInput(
                    f"{path} does not hold vectors of {embedder.model!r} with "
                    f"{embedder.dimensions} numbers; name another file."
                )
            rows = content[len(head) :]
            rows = rows[: len(rows) - len(rows) % self._pack.size]  # a run may have been killed
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._file: BinaryIO = os.fdopen(os.open(path, flags, 0o600), "ab")
        except OSError as exc:
            raise InvalidInput(f"{path} cannot be used ({exc.strerror}); name a file.") from exc
        self._file.truncate(len(head) + len(rows) if content else 0)
        if not content:
            self._file.write(head)
        for key, *vector in self._pack.iter_unpack(rows):
            self._vectors[key] = vector

    def get(self, text: str) -> list[float] | None:
        """Returns a text's vector, if it is kept."""
        return self._vectors.get(_key(text))

    def put(self, text: str, vector: list[float]) -> None:
        """Keeps a text's vector."""
        key = _key(text)
        self._vectors[key] = vector
        self._file.write(self._pack.pack(key, *vector))
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_KEY_BYTES).digest()


class MeasuredEmbedder:
    """An embedder that says how far it is, how long questions took, and embeds each text once.

    Everything else is the other one's.

    Args:
      embedder: What embeds.
      kept: Vectors of an earlier run; None embeds all anew.
      told: Is told how many texts have a vector.

    Attributes:
      model: The other one's.
      dimensions: The other one's.
      seconds: By question, how long its vector took.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        kept: KeptVectors | None = None,
        told: Callable[[int], None] = lambda done: None,
    ) -> None:
        self._embedder = embedder
        self._kept = kept
        self._told = told
        self._done = 0
        self._questions: dict[str, list[float]] = {}
        self.model = embedder.model
        self.dimensions = embedder.dimensions
        self.seconds: dict[str, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns vectors ``[n, d]``; those that are kept are not made again."""
        found = {text: self._kept.get(text) for text in texts} if self._kept else {}
        unknown = [text for text in dict.fromkeys(texts) if found.get(text) is None]
        made = await self._embedder.embed_documents(unknown) if unknown else []
        for text, vector in zip(unknown, made, strict=True):
            found[text] = vector
            if self._kept:
                self._kept.put(text, list(vector))
        self._done += len(texts)
        self._told(self._done)
        return [list(found[text] or ()) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        """Returns a question's vector ``[d]``; the first time is timed."""
        if text not in self._questions:
            begin = time.perf_counter()
            self._questions[text] = list(await self._embedder.embed_query(text))
            self.seconds[text] = time.perf_counter() - begin
        return self._questions[text]
