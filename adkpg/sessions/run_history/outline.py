"""Outline: what of an event decides whether a run needs it. No I/O."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outline:
    """An event without what it says.

    Attributes:
      seq: Its place in the session.
      size: Bytes of its JSON text.
      invocation_id: Empty if it has none.
      author: Who said it.
      scope: Its isolation scope; None for what all may see.
      branch: Its branch of the tree of agents; None for all.
      time: Its timestamp, in Unix seconds.
      rewound: The invocation before which it takes the session back.
      is_summary: Whether it is a summary of others (ADK's compaction).
      summarized: The first and the last second that the summary stands for; None without one.
      calls: Ids of its function calls.
      answers: Ids of its function responses.
      long_running: Those of its calls that whoever runs the agent answers.
      paused: Whether it holds an agent's state, to go on from.
      ended: Whether its agent has ended.
      finishes: Whether it ends the task of its scope.
    """

    seq: int
    size: int = 0
    invocation_id: str = ""
    author: str = ""
    scope: str | None = None
    branch: str | None = None
    time: float = 0.0
    rewound: str | None = None
    is_summary: bool = False
    summarized: tuple[float, float] | None = None
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    long_running: frozenset[str] = frozenset()
    paused: bool = False
    ended: bool = False
    finishes: bool = False


def read(text: str) -> Outline:
    """Reads what `statements.select_outlined_session` wrote of an event."""
    row = json.loads(text)
    raw = row.get("raw")
    if raw is None:
        return _outline(row["seq"], row["size"], row)
    return _outline(row["seq"], row["size"], _fields(json.loads(raw)))


def _fields(event: Mapping[str, Any]) -> dict[str, Any]:
    """Returns of a whole event what the server tells of others."""
    actions = event.get("actions") or {}
    parts = (event.get("content") or {}).get("parts") or ()
    calls = [part["function_call"] for part in parts if part.get("function_call")]
    answers = [part["function_response"] for part in parts if part.get("function_response")]
    return {
        "invocation_id": event.get("invocation_id"),
        "author": event.get("author"),
        "scope": event.get("isolation_scope"),
        "branch": event.get("branch"),
        "time": event.get("timestamp"),
        "rewound": actions.get("rewind_before_invocation_id"),
        "summary": _summary(actions.get("compaction")),
        "calls": [call.get("id") for call in calls],
        "answers": [answer.get("id") for answer in answers],
        "long_running": event.get("long_running_tool_ids"),
        "paused": actions.get("agent_state") is not None,
        "ended": actions.get("end_of_agent"),
        "results": [
            answer["response"]["result"]
            for answer in answers
            if answer.get("name") == "finish_task"
            and isinstance(answer.get("response"), dict)
            and "result" in answer["response"]
        ],
    }


def _summary(compaction: Any) -> list[Any] | None:
    if not isinstance(compaction, dict):
        return None
    said = compaction.get("compacted_content") is not None
    return [compaction.get("start_timestamp"), compaction.get("end_timestamp"), said]


def _outline(seq: int, size: int, row: Mapping[str, Any]) -> Outline:
    summary = row.get("summary")
    start, end, said = summary or (None, None, False)
    return Outline(
        seq=seq,
        size=size,
        invocation_id=row.get("invocation_id") or "",
        author=row.get("author") or "",
        scope=row.get("scope"),
        branch=row.get("branch") or None,
        time=float(row.get("time") or 0.0),
        rewound=row.get("rewound") or None,
        is_summary=summary is not None,
        summarized=(
            (float(start), float(end)) if said and start is not None and end is not None else None
        ),
        calls=tuple(each for each in row.get("calls") or () if each),
        answers=tuple(each for each in row.get("answers") or () if each),
        long_running=frozenset(row.get("long_running") or ()),
        paused=bool(row.get("paused")),
        ended=bool(row.get("ended")),
        finishes=bool(row.get("results")),
    )
