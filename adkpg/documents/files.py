"""Files: which documents a path names, and the text that one holds."""

import glob
import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from adkpg.errors import InvalidInput

logger = logging.getLogger(__name__)

SUFFIXES = (".md", ".markdown", ".mdx", ".mkd", ".txt", ".text", ".rst")
"""Endings of the files taken of a directory; a file that is named itself may have any ending."""

_MARKUP = (".html", ".htm", ".xhtml", ".pdf", ".docx", ".odt", ".rtf", ".epub", ".pptx", ".xlsx")


@dataclass(frozen=True)
class File:
    """A document in the file system.

    Attributes:
      path: Where it is.
      source: Its name, as it is stored: the path as it was given, with slashes.
    """

    path: Path
    source: str


def files(names: Sequence[str]) -> list[File]:
    """Returns the files that names lead to, each once, in their order.

    Args:
      names: Names of files or directories, or patterns with ``*``, ``?``, ``[]`` and ``**``, which
        a shell that does not know them passes on. A directory stands for the Markdown and text
        files below it, except hidden files and links that lead out of it.

    Raises:
      InvalidInput: A name leads to no file.
    """
    found: dict[str, File] = {}
    for name in names:
        paths = list(_paths(name))
        if not paths:
            raise InvalidInput(
                f"{name!r} leads to no file; name files, directories with {', '.join(SUFFIXES)} "
                "files, or a pattern like 'docs/**/*.md'."
            )
        for path in paths:
            source = Path(os.path.normpath(path)).as_posix()
            found.setdefault(source, File(path, source))
    return list(found.values())


def read(path: Path) -> str:
    """Returns the text of a file in UTF-8, without a byte order mark.

    Raises:
      InvalidInput: It cannot be read, or is not text: binary, HTML, PDF, an office format.
    """
    if path.suffix.lower() in _MARKUP:
        raise InvalidInput(
            f"{path} is {path.suffix[1:].upper()}, of which adkpg cannot take the text; convert "
            "it to Markdown or plain text first."
        )
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise InvalidInput(f"{path} cannot be read ({exc.strerror}); name another file.") from exc
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"{path} is not text in UTF-8 ({exc}); convert it first.") from exc
    if "\x00" in text:
        raise InvalidInput(f"{path} holds NUL, so it is not text; convert it first.")
    return text


def _paths(name: str) -> Iterator[Path]:
    path = Path(name)
    if path.is_dir():
        for directory, folders, entries in os.walk(path):
            folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
            for entry in sorted(entries):
                if not entry.startswith(".") and entry.lower().endswith(SUFFIXES):
                    yield from _within(path, Path(directory, entry))
    elif path.is_file():
        yield path
    else:
        folder = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), path.parts))
        for match in sorted(glob.glob(name, recursive=True)):
            if os.path.isfile(match):
                yield from _within(folder, Path(match))


def _within(folder: Path, path: Path) -> Iterator[Path]:
    """A file that was found in a folder, unless a link leads out of that folder."""
    if path.resolve().is_relative_to(folder.resolve()):
        yield path
    else:
        logger.warning(
            "%s is a link out of %s and was left out; name the file it leads to.", path, folder
        )
