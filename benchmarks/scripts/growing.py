"""What texts and values that grow cost: the CPU time of each room at n and at 4 n characters.

    python -m benchmarks.scripts.growing [--size 5000]

By room, the shape of text that takes longest at 4 n, in milliseconds of one thread, and how many
times as long that is as at n: 4 is linear, 16 quadratic. `tests/unit/test_linear_work.py` holds all
shapes to it.
"""

import argparse
import contextlib
import io
import logging

from rich.console import Console
from rich.table import Table

from tests.fakes.growing import SHAPES, TEXT_CALLS, cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=5_000, help="n, in characters")
    size = parser.parse_args().size
    logging.disable()  # what cannot be read is said again and again
    table = Table("ROOM", "SHAPE", "MS AT N", "MS AT 4 N", "TIMES")
    for name, call in TEXT_CALLS.items():
        with contextlib.redirect_stdout(io.StringIO()):
            long_s, shape = max(
                (cpu_s(call, make(4 * size)), each) for each, make in SHAPES.items()
            )
            short_s = min(cpu_s(call, SHAPES[shape](size)) for _ in range(3))
            long_s = min(long_s, *(cpu_s(call, SHAPES[shape](4 * size)) for _ in range(2)))
        row = (f"{1_000 * short_s:.1f}", f"{1_000 * long_s:.1f}", f"{long_s / short_s:.1f}")
        table.add_row(name, shape, *row)
    Console().print(table)


if __name__ == "__main__":
    main()
