"""The queue: what is still to be done with memories, and the worker that does it."""
