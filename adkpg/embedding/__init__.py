"""Embedders: texts to vectors, offline or through a service.

Importing this package needs none of the extras; each embedder imports its library at first use.
"""

from adkpg.embedding.embedder import Embedder
from adkpg.embedding.gemini import GeminiEmbedder
from adkpg.embedding.local import LocalEmbedder
from adkpg.embedding.openai import OpenAIEmbedder

__all__ = ["Embedder", "GeminiEmbedder", "LocalEmbedder", "OpenAIEmbedder"]
