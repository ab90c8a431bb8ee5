"""Embedders that a command is given by name: ``--model tests.fakes.named_embedders:new``."""

import os
import sys
from dataclasses import dataclass

from tests.fakes.toys import ToyEmbedder

new = ToyEmbedder("new")
number = 1


def failing() -> ToyEmbedder:
    raise RuntimeError("broken")


@dataclass
class HaltingEmbedder(ToyEmbedder):
    """Answers one text, says so on standard output, and never answers again."""

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.documents:
            os.write(1, b"halted\n")
            sys.stdin.read()
        return await super().embed_documents(texts)


def halting() -> ToyEmbedder:
    return HaltingEmbedder("new")
