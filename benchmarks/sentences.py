"""Sentences of random words, as often as words are (Zipf)."""

from importlib.resources import files

import numpy as np


class Sentences:
    """Sentences of whole words, each as often as its rank in the vocabulary says.

    Args:
      seed: Equal seeds make equal sentences.

    Attributes:
      words: The vocabulary, the most frequent first.
      shares: How often each word is, ``[v]``; they add up to 1.
    """

    def __init__(self, seed: int) -> None:
        vocabulary = files("adkpg.embedding").joinpath("data", "vocab.txt").read_text()
        self.words = [w for w in vocabulary.splitlines() if w.isalpha() and len(w) > 2]
        weights = 1 / (np.arange(len(self.words)) + 20)
        self.shares = weights / weights.sum()
        self._random = np.random.default_rng(seed)

    def make(self, words: int) -> str:
        chosen = self._random.choice(len(self.words), size=words, p=self.shares)
        return " ".join(self.words[place] for place in chosen)
