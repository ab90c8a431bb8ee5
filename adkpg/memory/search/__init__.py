"""Searching memories: one question, one statement, hits with their reasons."""
