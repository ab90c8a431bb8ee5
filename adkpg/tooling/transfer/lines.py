"""Lines: records as lines of JSON, and back. Pure; docs/export-format.md says what they mean."""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from json.decoder import scanstring  # type: ignore[attr-defined] # the standard library's own
from typing import Any

from pydantic import ValidationError

from adkpg.errors import InvalidInput
from adkpg.jsontext import mended_json, storable
from adkpg.keys import APP_WIDE, require_storable
from adkpg.tooling.transfer.kinds import KINDS
from adkpg.tooling.transfer.records import Spelled

FORMAT = "adkpg"
"""What the first line of each export calls its format."""

VERSION = 1
"""The newest version of the format that is read, and the one that is written."""


def header(*, app_name: str, user_id: str | None, session_id: str | None, writer: str) -> str:
    """Returns the first line of an export: what it holds, and who wrote it."""
    value: dict[str, Any] = {
        "type": "export",
        "format": FORMAT,
        "version": VERSION,
        "writer": writer,
        "exported_at": datetime.now(UTC).isoformat(timespec="microseconds"),
        "app_name": app_name,
    }
    if user_id is not None:
        value["user_id"] = user_id
    if session_id is not None:
        value["session_id"] = session_id
    return written(value)


def end(counts: Mapping[str, int]) -> str:
    """Returns the last line of an export, which says that none is missing."""
    return written({"type": "end", "records": dict(counts)})


def written(value: Mapping[str, Any]) -> str:
    """Returns the line of an object."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(value, separators=(",", ":"))
    return unbroken(text)


# Line breaks to some readers, which JSON leaves as they are: a line has them escaped.
_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
_BREAK = re.compile("[\x85\u2028\u2029]")
_ESCAPED_BREAK = re.compile(r"(?<!\\)((?:\\\\)*)\\u(0085|2028|2029)")


def unbroken(line: str) -> str:
    """Returns a line that is one to every reader."""
    return line.translate(_BREAKS) if _BREAK.search(line) else line


def _broken(text: str) -> str:
    """Undoes `unbroken`."""
    return _ESCAPED_BREAK.sub(lambda found: found[1] + chr(int(found[2], 16)), text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
_SPACE = re.compile(r"[ \t\r\n]*+")


def read(text: str) -> dict[str, Any]:
    """Reads a line as its JSON object, whose own objects are `Spelled`.

    Raises:
      InvalidInput: It is none.
    """
    try:
        value = _read(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"it is not JSON ({exc}).") from exc
    if not isinstance(value.get("type"), str):
        raise InvalidInput("it is not a JSON object with a type.")
    return value


def _read(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = _after(text, 0, "{")
    if text[at : at + 1] == "}":
        at += 1
    else:
        while True:
            key, at = scanstring(text, _after(text, at, '"'), True)
            start = _after(text, at, ":")
            value, at = _DECODER.raw_decode(text, start)
            if isinstance(value, dict):
                value = Spelled(value, mended_json(_broken(text[start:at])))
            found[key] = value
            at = _skipped(text, at)
            if text[at : at + 1] != ",":
                break
            at = _skipped(text, at + 1)
        at = _after(text, at, "}")
    if _skipped(text, at) != len(text):
        raise json.JSONDecodeError("Extra data", text, at)
    return found


def _skipped(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _after(text: str, at: int, sign: str) -> int:
    """Returns the place after a sign that is to come, and after the spaces behind it."""
    at = _skipped(text, at)
    if text[at : at + 1] != sign:
        raise json.JSONDecodeError(f"Expecting {sign!r}", text, at)
    return at + 1 if sign == '"' else _skipped(text, at + 1)


def require_readable(value: Mapping[str, Any], name: str) -> None:
    """Refuses what does not begin as an export does.

    Args:
      value: The first line's object.
      name: The file's.

    Raises:
      InvalidInput: It is no export, or of a newer version.
    """
    if value.get("type") != "export" or value.get("format") != FORMAT:
        raise InvalidInput(
            f"{name} is not an export of adkpg: its first line says neither type 'export' nor "
            f"format {FORMAT!r}; give a file that `adkpg export` wrote."
        )
    version = value.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise InvalidInput(
            f"{name} has version {version!r} of the format, and this adkpg reads up to {VERSION}; "
            "upgrade adkpg."
        )


def require_within(value: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Refuses a line of another app or user than its export is of.

    Args:
      value: The line's object.
      header: The object of the export's first line.

    Raises:
      InvalidInput: It belongs to another app or user, or to all users where one was exported.
    """
    for name in ("app_name", "user_id"):
        if header.get(name) not in (None, value.get(name)):
            raise InvalidInput(
                f"its {name} is {str(value.get(name))[:100]!r}, and its export is of "
                f"{str(header[name])[:100]!r}."
            )


def unknown_fields(value: Mapping[str, Any]) -> list[str]:
    """Returns the names of fields of a line that its type does not list; a few of them."""
    known = KINDS[value["type"]].columns
    return sorted(name[:40] for name in value if name not in known and name != "type")[:5]


def record(value: Mapping[str, Any]) -> Any:
    """Returns the record that a line's object makes; None if its type is unknown.

    Raises:
      InvalidInput: A value is missing, or is none that its column may have.
    """
    kind = KINDS.get(value["type"])
    if kind is None:
        return None
    try:
        found = kind.adapter.validate_python(value)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False, include_context=False)[0]
        said = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
        said = said[:1].lower() + said[1:]
        where = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"its {where}: {said}." if where else f"{said}.") from exc
    except RecursionError as exc:
        raise InvalidInput("it is nested too deeply.") from exc
    for name in kind.columns:
        text = getattr(found, name)
        if isinstance(text, str) and storable(text) != text and name not in kind.ids:
            raise InvalidInput(f"its {name} holds NUL or a lone surrogate.")
    ids = {name: getattr(found, name) for name in kind.ids}
    if ids.get("user_id") == APP_WIDE:
        del ids["user_id"]
    require_storable(**ids)
    return found
