"""Embedding models: which there are, which one an app is searched with, and changing it."""
