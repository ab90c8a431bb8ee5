"""A batch: the texts that go to a service in one request."""

from collections.abc import Iterator, Sequence


def well_formed(text: str, max_bytes: int | None = None) -> str:
    """Return text that UTF-8 can carry, cut at ``max_bytes`` of it without splitting a character.

    A lone surrogate becomes ``?``. A token of any byte-level vocabulary stands for at least one
    byte, so a text cut at n bytes never exceeds n tokens.
    """
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")


def batches(texts: Sequence[str], *, max_texts: int, max_bytes: int) -> Iterator[list[str]]:
    """Split texts, in order, into batches of at most ``max_texts`` and ``max_bytes`` of UTF-8.

    A text larger than ``max_bytes`` makes a batch of its own.
    """
    batch: list[str] = []
    size = 0
    for text in texts:
        text_bytes = len(text.encode())
        if batch and (len(batch) == max_texts or size + text_bytes > max_bytes):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += text_bytes
    if batch:
        yield batch
