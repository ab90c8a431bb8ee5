"""Before and after: this checkout's adkpg and another checkout's, in one run.

    python -m benchmarks.scripts.compare CHECKOUT [--blocks 10] [--only append]

Each runs in a process of its own (compared.py), with a database of its own on one server
(ADKPG_DATABASE_URL's, else the embedded one). They take turns in blocks, and each round another
one begins. Above 1, this checkout is slower. On a machine with other work look at the CPU of client
and server process, which knows no waiting: the least of the blocks.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from pathlib import Path
from typing import Any

import asyncpg
from rich.console import Console
from rich.table import Table

from benchmarks.server import chosen_server, own_database

HERE = Path(__file__).parents[2]


async def started(checkout: Path, url: str) -> Process:
    return await create_subprocess_exec(
        sys.executable,
        str(HERE / "benchmarks" / "scripts" / "compared.py"),
        url,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        stdin=PIPE,
        stdout=PIPE,
        limit=2**24,
    )


async def answer(process: Process, line: str | None = None) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    if line is not None:
        process.stdin.write(f"{line}\n".encode())
        await process.stdin.drain()
    text = await process.stdout.readline()
    if not text:
        raise SystemExit("A side ended; its message is above.")
    return json.loads(text)


async def compare(server_url: str, other: Path, blocks: int, only: str) -> None:
    async with (
        own_database(server_url, "before") as before_url,
        own_database(server_url, "after") as after_url,
    ):
        sides = {
            "before": await started(other, before_url),
            "after": await started(HERE, after_url),
        }
        try:
            names: list[str] = []
            for process in sides.values():
                names = [str(name) for name in await answer(process) if only in str(name)]
            for url in (before_url, after_url):
                connection = await asyncpg.connect(url)
                await connection.execute("VACUUM ANALYZE")
                await connection.close()
            took: dict[str, dict[str, list[float]]] = {
                side: {name: [] for name in names} for side in sides
            }
            cpu: dict[str, dict[str, list[list[float]]]] = {
                side: {name: [] for name in names} for side in sides
            }
            for number in range(blocks + 1):  # the first warms up
                order = list(sides) if number % 2 else list(sides)[::-1]
                for name in names:
                    for side in order:
                        block = await answer(sides[side], name)
                        if number:
                            took[side][name] += block["took"]
                            cpu[side][name].append(block["cpu"])
        finally:
            for process in sides.values():
                assert process.stdin is not None
                process.stdin.close()
                await process.wait()
    table = Table("CALL", "BEFORE", "AFTER", "AFTER / BEFORE", "CPU, CLIENT", "CPU, SERVER")
    for name in names:
        before, after = took["before"][name], took["after"][name]
        middle = [statistics.median(each) for each in (before, after)]
        least = [list(map(min, zip(*cpu[side][name], strict=True))) for side in cpu]
        table.add_row(
            name,
            *(f"{each:.2f} ms" for each in middle),
            f"{middle[1] / middle[0]:.2f}",
            *(f"{new / old:.2f}" if old else "" for old, new in zip(*least, strict=True)),
        )
    Console(width=100).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkout", type=Path, help="of the other version")
    parser.add_argument("--blocks", type=int, default=10, help="of 20 calls each")
    parser.add_argument("--only", default="", help="calls whose name has this")
    arguments = parser.parse_args()
    with chosen_server() as url:
        asyncio.run(compare(url, arguments.checkout.resolve(), arguments.blocks, arguments.only))


if __name__ == "__main__":
    main()
