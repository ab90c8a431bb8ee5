"""Measures adkpg alongside its peers: every suite in turn, on one server.

    python benchmarks [--quick] [--only sessions|memory] [--json PATH]
    python benchmarks --page

`make bench` runs it in an environment that has the peers. The server is ADKPG_DATABASE_URL, else
the embedded one with its durable defaults. A full run writes docs/benchmarks.json, and from it the
page docs/benchmarks.md and its plots, as --page does without measuring and without the peers; a
suite run alone replaces its own figures there. A quick run writes nothing unless --json names a
file.
"""

import argparse
import asyncio
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the checkout

from benchmarks import page, plots
from benchmarks.figures import Report
from benchmarks.server import chosen_server

SUITES = ("sessions", "memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute a suite")
    parser.add_argument("--only", choices=SUITES, help="one suite")
    parser.add_argument("--json", type=Path, help="where to keep the figures")
    parser.add_argument("--page", action="store_true", help="only write the page and its plots")
    arguments = parser.parse_args()
    if arguments.page:
        publish()
        return
    kept = arguments.json or (None if arguments.quick else page.FIGURES)
    chosen = [import_module(f"benchmarks.suites.{name}").THIS for name in SUITES]
    with chosen_server() as url:
        for suite in chosen:
            if arguments.only in (None, suite.name):
                asyncio.run(suite.measure(url, arguments.quick, kept))
    if kept == page.FIGURES:
        publish()


def publish() -> None:
    report = Report.read(page.FIGURES)
    page.PAGE.write_text(page.render(report), encoding="utf-8")
    plots.draw(report, page.DOCS)


if __name__ == "__main__":
    main()
