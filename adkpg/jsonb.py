"""JSON in jsonb columns: what jsonb cannot hold is escaped, reversibly.

jsonb refuses U+0000 and lone surrogates. Each becomes U+001A and four hex digits, and so does
U+001A itself, which makes the escape reversible.
"""

import json
import re
from collections.abc import Callable
from typing import Any

_UNSTORABLE = re.compile("[\x00\x1a\ud800-\udfff]")
_UNSTORABLE_IN_JSON = re.compile("\\\\u0000|\\\\u001a|[\ud800-\udfff]")
_UNSTORABLE_IN_TEXT = re.compile("[\x00\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


def write(plain: Any) -> str:
    """Returns plain JSON values as text that jsonb accepts.

    Raises:
      ValueError: A float is NaN or infinite, or the value is circular.
      TypeError: A value is not JSON.
      RecursionError: It is nested too deeply.
    """
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    if _UNSTORABLE_IN_JSON.search(text):
        text = json.dumps(mapped(plain, escape), ensure_ascii=False)
    return text


def read(text: str) -> Any:
    """Reads back what `write` wrote."""
    value = json.loads(text)
    return mapped(value, unescape) if "\\u001a" in text else value


def mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Returns a copy with `leaf` applied to everything that is no container, keys included."""
    if isinstance(value, dict):
        copy = {}
        for key, item in value.items():  # no comprehension: it would take a frame of its own
            copy[leaf(key)] = mapped(item, leaf)
        return copy
    if isinstance(value, (list, tuple, set, frozenset)):
        items = []
        for item in value:
            items.append(mapped(item, leaf))
        return items
    return leaf(value)


def storable(text: str) -> str:
    """Returns a text without what no text column holds: NUL and lone surrogates become blanks."""
    return _UNSTORABLE_IN_TEXT.sub(" ", text)


def escape(leaf: Any) -> Any:
    """Returns a text as jsonb can hold it, anything else as it is."""
    if not isinstance(leaf, str):
        return leaf
    return _UNSTORABLE.sub(lambda match: f"\x1a{ord(match[0]):04x}", leaf)


def unescape(leaf: Any) -> Any:
    """Undoes `escape`."""
    if not isinstance(leaf, str):
        return leaf
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), leaf)
