"""Reading: a file of a data set, whatever its format."""

import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any

from adkpg.errors import InvalidInput
from adkpg.tooling.evaluation.dataset import Collected, DataSet
from adkpg.tooling.evaluation.formats import beam, locomo, longmemeval, msc, own, questions

_CHAT, _QUESTIONS = "chat.json", "probing_questions.json"
_FORMATS = (
    "LoCoMo, LongMemEval, BEAM (chat.json, or a folder of chats), MSC, "
    '[{"sessions": ..., "questions": ...}] or [{"q": ..., "evidence": ...}]'
)
_BEGINNING = 1_000
_UNPACKED = 2 * 10**9
"""The most bytes that a compressed file may unpack to."""
_LOADERS = (
    # The order tells apart: a question of LongMemEval is one of the last kind, too.
    (longmemeval.matches, longmemeval.load),
    (msc.matches, msc.load),
    (own.matches, own.load),
    (locomo.matches, locomo.load),
    (questions.matches, questions.load),
)


def read(path: Path) -> DataSet:
    """Reads a file, or a folder of BEAM's chats; the content tells its format.

    Formats are LoCoMo's, LongMemEval's, BEAM's, Multi-Session Chat's, and two of one's own: stores
    with conversations and questions (`formats.own`), and questions alone (`formats.questions`).
    JSON, a JSON value a line, and either compressed by gzip.

    Raises:
      InvalidInput: It cannot be read, or is in none of the formats; the message says where.
    """
    if path.is_dir():
        return _beam_folder(path)
    value = _value(path)
    if beam.is_chat(value):
        found = Collected("BEAM")
        beam.load(path.resolve().parent.name, value, _beside(path, questions=True), found)
        return found.dataset()
    if beam.are_questions(value):
        found = Collected("BEAM")
        chat = _beside(path, questions=False)
        beam.load(path.resolve().parents[1].name, chat, value, found)
        return found.dataset()
    try:
        return parsed(value)
    except InvalidInput as exc:
        raise InvalidInput(f"{path}: {exc}") from exc


def parsed(value: Any) -> DataSet:
    """Reads what a file of one JSON value holds; see `read`.

    Raises:
      InvalidInput: It is in none of the formats; the message says where.
    """
    entries = [value] if isinstance(value, dict) else value
    if isinstance(entries, list) and entries:
        for matches, load in _LOADERS:
            if matches(entries[0]):
                return load(entries)
    raise InvalidInput(f"This is not a data set with questions; give one of {_FORMATS}.")


def _beam_folder(folder: Path) -> DataSet:
    found = Collected("BEAM")
    chats = sorted(
        (path for name in (_CHAT, f"{_CHAT}.gz") for path in folder.rglob(name)),
        key=lambda path: [
            (0, int(part), "") if part.isdigit() else (1, 0, part) for part in path.parts
        ],
    )
    if not chats:
        raise InvalidInput(f"The folder {folder} has no {_CHAT}; name a folder of BEAM's chats.")
    for path in chats:
        value = _value(path)
        if not beam.is_chat(value):
            raise InvalidInput(f"{path} is not a chat in BEAM's format; correct it.")
        name = path.resolve().parent.name
        beam.load(name, value, _beside(path, questions=True), found)
    return found.dataset()


def _beside(path: Path, *, questions: bool) -> Any:
    """Returns a chat's questions, or the chat of questions, as BEAM lays them out."""
    parent = path.resolve().parent
    names = (_QUESTIONS, f"{_QUESTIONS}.gz") if questions else (_CHAT, f"{_CHAT}.gz")
    folders = (parent / "probing_questions", parent) if questions else (parent.parent, parent)
    for folder in folders:
        for name in names:
            if (folder / name).is_file():
                return _value(folder / name)
    wanted = f"probing_questions/{_QUESTIONS}" if questions else f"../{_CHAT}"
    raise InvalidInput(f"{path} is half of a chat of BEAM's; put {wanted} where BEAM has it.")


def _value(path: Path) -> Any:
    """Returns the JSON value of a file; of several lines with one each, a list.

    Raises:
      InvalidInput: It cannot be read, or is not JSON.
    """
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            with gzip.open(io.BytesIO(content)) as packed:
                content = packed.read(_UNPACKED + 1)
            if len(content) > _UNPACKED:
                raise InvalidInput(f"{path} unpacks to more than 2 GB; cut it into files.")
        text = content.decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error) as exc:
        raise InvalidInput(f"{path} cannot be decompressed ({exc}); write it again.") from exc
    except OSError as exc:
        raise InvalidInput(f"{path} cannot be read ({exc.strerror}); name a file.") from exc
    except UnicodeDecodeError as exc:
        raise InvalidInput(
            f"{path} is not text in UTF-8 (byte {exc.start + 1} cannot be read); save it as UTF-8."
        ) from exc
    if "\0" in text[:_BEGINNING]:  # ASCII in UTF-16 is UTF-8 with a NUL beside each letter
        raise InvalidInput(f"{path} is not text in UTF-8 (it has NUL bytes); save it as UTF-8.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        failure: Exception = exc
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].lstrip().startswith("{"):
        try:
            return [json.loads(line) for line in lines]
        except (ValueError, RecursionError):
            pass
    raise InvalidInput(f"{path} is not JSON ({failure}); give one of {_FORMATS}.") from failure
