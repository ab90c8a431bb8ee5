"""Ahead: memories that are embedded while they are being written."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from adkpg.memory.vectors.vectors import Answered


class Ahead:
    """Begins to embed at once, and keeps the answers until they are read.

    Args:
      groups: What embeds, a few at a time. Memories whose rows have no ``position`` when they are
        read were not written: no caller gets to see them.
    """

    def __init__(self, groups: AsyncGenerator[Answered]) -> None:
        self._groups = groups
        self._answers: asyncio.Queue[Answered | BaseException | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._fill())

    async def answered(self) -> AsyncGenerator[Answered]:
        """Yields what was answered since it was asked last, together.

        Raises:
          ModelUnavailable: As the embedder's failure says, after what it answered before.
        """
        while True:
            answers = [await self._answers.get()]
            while not self._answers.empty():
                answers.append(self._answers.get_nowait())
            end = answers.pop() if not isinstance(answers[-1], tuple) else ()
            groups = [each for each in answers if isinstance(each, tuple)]
            yield (
                [pair for embedded, _ in groups for pair in embedded if "position" in pair[0]],
                [pair for _, refused in groups for pair in refused if "position" in pair[0]],
            )
            if isinstance(end, BaseException):
                raise end
            if end is None:
                return

    async def close(self) -> None:
        """Ends it, whatever is not answered yet."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _fill(self) -> None:
        try:
            async with aclosing(self._groups):
                async for group in self._groups:
                    self._answers.put_nowait(group)
        except Exception as exc:  # noqa: BLE001 - the reader of the answers raises it
            self._answers.put_nowait(exc)
        else:
            self._answers.put_nowait(None)
