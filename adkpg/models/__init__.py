"""Embedding models: which there are, which one an app is searched with, and changing it."""

from adkpg.models.reembedding import Progress, Reembedded
from adkpg.models.service import Coverage, Model, Models

__all__ = ["Coverage", "Model", "Models", "Progress", "Reembedded"]
