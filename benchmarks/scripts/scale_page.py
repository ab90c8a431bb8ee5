"""The slope and the plot of docs/scale.md, and the table of processes, in one run.

    python -m benchmarks.scripts.scale_page [--memories 100000,1000000,3000000] [--seconds 4]
    python -m benchmarks.scripts.scale_page --page

Runs `scale`, `processes` and `replicas` one after the other and says how far it is; then it writes
docs/scale.md, docs/scale.svg and the tables in docs/performance.md and docs/deployment/sizing.md,
as --page does from what is there. Stopped, it goes on where it was; to begin anew, remove .scale/
and run `scale --remove`. Needs the environment of `make bench`. A quiet machine of two cores needs
a quarter of an hour, and 21 GB of disk beside the 8 that stay free.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.scripts import processes, scale, sizing
from benchmarks.scripts.scale_plot import draw

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
KEPT = CHECKOUT / ".scale"
FIGURES = DOCS / "scale.json"
PROCESSES = DOCS / "processes.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--memories", default="100000,1000000,3000000", help="sizes, by comma")
    parser.add_argument("--seconds", default="4", help="of each setting of processes and replicas")
    parser.add_argument("--quick", action="store_true", help="few calls: a look, no figures")
    parser.add_argument("--page", action="store_true", help="only write the pages")
    given = parser.parse_args()
    if not given.page:
        quick = ["--quick"] if given.quick else []
        fresh = KEPT / "processes.json"
        stages = {
            "scale": ["--memories", given.memories, *quick],
            "processes": ["--seconds", given.seconds, "--json", str(fresh), *quick],
            "replicas": ["--seconds", given.seconds],
        }
        KEPT.mkdir(exist_ok=True)
        for number, (name, options) in enumerate(stages.items(), start=1):
            run(f"{number} of {len(stages)}", name, options)
        PROCESSES.write_text(fresh.read_text(encoding="utf-8"), encoding="utf-8")
        for each in KEPT.iterdir():
            each.unlink()
    publish()


def run(place: str, name: str, options: list[str]) -> None:
    """Runs a script, unless it ended in a run before; what it says is shown and kept."""
    ended = KEPT / f"{name}.txt"
    if ended.exists():
        print(f"[{place}] {name}: done before", flush=True)
        return
    print(f"[{place}] {name} begins at {time.strftime('%H:%M')}", flush=True)
    began = time.monotonic()
    command = [sys.executable, "-u", "-m", f"benchmarks.scripts.{name}", *options]
    subprocess.run(command, cwd=CHECKOUT, check=True)
    ended.touch()
    print(f"[{place}] {name} took {(time.monotonic() - began) / 60:.0f} minutes", flush=True)


def publish() -> None:
    """Writes the pages and the plot from the figures that there are."""
    report = json.loads(FIGURES.read_text(encoding="utf-8"))
    put(DOCS / "scale.md", "scale", scale.tables(report))
    put(DOCS / "deployment" / "sizing.md", "sizing", sizing.page_table(report))
    draw(report, DOCS / "scale.svg")
    if PROCESSES.exists():
        found = json.loads(PROCESSES.read_text(encoding="utf-8"))
        put(DOCS / "performance.md", "processes", processes.page_table(found))


def put(page: Path, mark: str, table: str) -> None:
    """Puts a table into a page, between its two marks."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- {mark} -->")
    _, end, after = rest.partition(f"<!-- /{mark} -->")
    if not begin or not end:
        raise SystemExit(f"{page} has no <!-- {mark} --> and <!-- /{mark} -->.")
    page.write_text(f"{before}{begin}\n\n{table}\n\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
