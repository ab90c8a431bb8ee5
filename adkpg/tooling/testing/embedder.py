"""An embedder whose vectors a test can tell in advance."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b


@dataclass
class DeterministicEmbedder:
    """Makes a text's vector by counting its words: no model, no network, the same everywhere.

    Without ``meanings`` each word has a place of its own, found by its hash, so texts are as near
    as the words they share. With them only their words count: texts that name one meaning are near,
    and a text that names none is near nothing.

    Attributes:
      model: The model's name, which the app's vectors go by.
      dimensions: Length of the vectors, at least two more than there are meanings.
      meanings: Words of one meaning each, such as ``("cat kitten feline", "car vehicle")``.
      documents: Every batch that was asked for, in order.
      questions: Every question that was asked for, in order.
    """

    model: str = "deterministic"
    dimensions: int = 256
    meanings: Sequence[str] = ()
    documents: list[list[str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns a vector for each text."""
        self.documents.append(texts)
        return [self.vector(text, nothing=self.dimensions - 1) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        """Returns a question's vector."""
        self.questions.append(text)
        return self.vector(text, nothing=self.dimensions - 2)

    def vector(self, text: str, *, nothing: int) -> list[float]:
        """Returns a text's vector: how often each place is named.

        Args:
          text: The text.
          nothing: The place of a text that names none, which a question does not share.
        """
        places = {word: at for at, words in enumerate(self.meanings) for word in words.split()}
        words = re.findall(r"\w+", text.lower())
        if self.meanings:
            named = [places[word] for word in words if word in places]
        else:
            named = [self._hashed(word) for word in words]
        vector = [0.0] * self.dimensions
        for place in named or [nothing]:
            vector[place] += 1.0
        return vector

    def _hashed(self, word: str) -> int:
        # Python's own hash differs from process to process.
        digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % (self.dimensions - 2)
