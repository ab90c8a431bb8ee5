"""One question each, about adkpg alone: `python -m benchmarks.scripts.NAME`."""
