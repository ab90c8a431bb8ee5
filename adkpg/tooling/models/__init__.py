"""Embedding models: which there are, which one an app is searched with, and changing it."""

from adkpg.tooling.models.reembedding import Progress, Reembedded
from adkpg.tooling.models.service import Coverage, Model, Models

__all__ = ["Coverage", "Model", "Models", "Progress", "Reembedded"]
