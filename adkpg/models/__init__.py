"""Embedding models: which there are, which one an app is searched with, and changing it."""

from adkpg.models.service import Models

__all__ = ["Models"]
