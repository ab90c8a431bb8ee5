"""Answers: what a model wrote, read as operations however it misbehaves. Pure."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from adkpg.errors import ExtractionError
from adkpg.facts.extractor import Add, Extraction, Operation, Supersede, Update

_FENCE = re.compile(r"```[a-zA-Z]*\s*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[{\[]")
_MOST_TRIES = 20  # places where JSON may begin in an answer with words around it


def extraction(text: str, turns: Mapping[str, str], facts: Mapping[str, str]) -> Extraction:
    """Reads the operations that a model answered with.

    Fences and words around the JSON are passed over. An operation that names a turn or fact that
    was not given loses that name; an update of an invented fact adds one, as its provenance must
    carry it anyway. Items that are no operations are dropped with their reason. Bounds are
    `adkpg.facts.merging`'s.

    Args:
      turns: Memory ids by the labels of the turns that were given.
      facts: Memory ids by the labels of the known facts that were given.

    Raises:
      ExtractionError: No JSON of the form that was asked for.
    """
    found = _json(text)
    items = found.get("operations") if isinstance(found, dict) else found
    if items is None and isinstance(found, dict) and "text" in found:
        items = [found]
    if not isinstance(items, list):
        raise ExtractionError("the JSON has no list of operations")
    operations: list[Operation] = []
    dropped: list[str] = []
    for item in items:
        read = _operation(item, turns, facts)
        if isinstance(read, str):
            dropped.append(read)
        else:
            operations.append(read)
    return Extraction(tuple(operations), dropped=tuple(dropped))


def summary(text: str) -> tuple[str, tuple[str, ...]]:
    """Reads the summary and its topics that a model answered with.

    Raises:
      ExtractionError: No JSON of the form that was asked for, or an empty summary.
    """
    found = _json(text)
    words = found.get("summary") if isinstance(found, dict) else None
    if not isinstance(words, str) or not words.strip():
        raise ExtractionError("the JSON has no summary")
    return words, _strings(found.get("topics"))


def _operation(item: object, turns: Mapping[str, str], facts: Mapping[str, str]) -> Operation | str:
    """Returns the operation, or why it is none."""
    if not isinstance(item, dict):
        return "no object"
    text = item.get("text")
    if not isinstance(text, str) or not text.strip():
        return "no text"
    labels = _strings(item.get("sources", item.get("source_ids")))
    provenance = tuple(dict.fromkeys(turns[label] for label in labels if label in turns))
    importance, topics = _importance(item.get("importance")), _strings(item.get("topics"))
    label = item.get("fact")
    fact = facts.get(label.strip()) if isinstance(label, str) else None
    match str(item.get("action", "add")).strip().lower():
        case "supersede" if fact is not None:
            return Supersede(fact, Add(text, provenance, importance, topics))
        case "update" if fact is not None:
            return Update(fact, text, provenance, importance, topics)
        case "add" | "update" | "supersede":
            return Add(text, provenance, importance, topics)
    return "unknown action"


def _json(text: str) -> Any:
    """Returns the JSON of an answer: all of it, fenced, or between words."""
    tried = [text.strip(), *(match.strip() for match in _FENCE.findall(text))]
    reason = "it is empty"
    for candidate in tried:
        if candidate:
            try:
                return json.loads(candidate)
            except (ValueError, RecursionError) as exc:
                reason = f"it is not JSON ({_reason(exc)})"
    decoder = json.JSONDecoder()
    for opening in list(_OPENING.finditer(text))[:_MOST_TRIES]:
        try:
            found, _ = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            continue  # a bracket of the words around it
        if isinstance(found, dict) and ("operations" in found or "summary" in found):
            return found
    raise ExtractionError(reason)


def _reason(exc: Exception) -> str:
    return exc.msg.lower() if isinstance(exc, json.JSONDecodeError) else "too large or too deep"


def _strings(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(word.strip() for word in values if isinstance(word, str) and word.strip())


def _importance(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type] # whatever a model wrote
    except (TypeError, ValueError, OverflowError):
        return 0.5
    return 0.5 if math.isnan(number) else min(max(number, 0.0), 1.0)
