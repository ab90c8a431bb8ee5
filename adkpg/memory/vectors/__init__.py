"""Vectors: a model's, stored, indexed and kept up to date."""
