"""A soak: mixed load on a server of its own, a fault every few seconds, and a checker."""
