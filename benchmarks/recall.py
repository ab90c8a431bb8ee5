"""Recall on a data set's own file: python benchmarks/recall.py FILE [--help]."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the checkout

from benchmarks.suites.recall import main

if __name__ == "__main__":
    main()
