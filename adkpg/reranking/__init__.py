"""Rerankers: a second, closer look at the best hits of a search. Off by default.

Importing this package needs no extra; `OnnxReranker` imports its libraries at first use.
"""

from adkpg.reranking.cohere import CohereReranker
from adkpg.reranking.onnx import OnnxReranker
from adkpg.reranking.reranker import Reranker
from adkpg.reranking.tei import TEIReranker

__all__ = ["CohereReranker", "OnnxReranker", "Reranker", "TEIReranker"]
