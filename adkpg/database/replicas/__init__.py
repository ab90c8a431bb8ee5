"""Replicas: reads on standbys, and what this process must not fall behind."""
