"""Statements that read what a run needs of a session. Each is built once and does no I/O."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    not_,
    null,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from adkpg.sessions.reading_statements import STANDING
from adkpg.sessions.statements import expected, its_events, live_session
from adkpg.sql import SessionParameters, Statement
from adkpg.tables import events, sessions

_SMALL_BYTES = 1_000_000
_EVENT = literal_column("event", JSONB)


class OutlinedSessionParameters(SessionParameters):
    """A session of at most so many events is read whole, if it is small, too."""

    whole: int


class ChosenEventsParameters(SessionParameters):
    """The session as its outline was read, and numbers of its events."""

    incarnation: str
    revision: int
    revision_token: str | None
    seqs: list[int]


@cache
def select_outlined_session() -> Statement[OutlinedSessionParameters]:
    """Reads a session and the shared states, with its events, or with the outlines of all of them.

    One of ``payloads`` and ``outlines`` is null; both are in append order. No row if the session
    does not exist.
    """
    small = (sessions.c.revision <= bindparam("whole", type_=BigInteger)) & (
        sessions.c.payload_bytes <= literal_column(str(_SMALL_BYTES))
    )
    whole = select(cast(events.c.payload, Text)).where(its_events()).order_by(events.c.seq)
    texts = (
        select(events.c.seq, cast(events.c.payload, Text).label("text"))
        .where(its_events())
        .offset(literal_column("0"))  # each is unpacked once
        .subquery("texts")
    )
    # jsonb holds no U+0000 and no half of a pair: the reader outlines an event with an escape.
    escaped = func.strpos(texts.c.text, literal_column(r"'\u'")) > literal_column("0")
    parsed = (
        select(
            texts.c.seq,
            texts.c.text,
            case((not_(escaped), cast(texts.c.text, JSONB))).label("event"),
        )
        .offset(literal_column("0"))  # each is parsed once
        .subquery("parsed")
    )
    outlines = select(cast(_outline(parsed), Text)).order_by(parsed.c.seq)
    return Statement(
        select(
            *STANDING,
            case((small, func.array(whole.scalar_subquery())), else_=null()).label("payloads"),
            case((not_(small), func.array(outlines.scalar_subquery())), else_=null()).label(
                "outlines"
            ),
        ).where(live_session())
    )


@cache
def select_chosen_events() -> Statement[ChosenEventsParameters]:
    """Reads some events in append order; no row if the session is no more the one outlined."""
    chosen = (
        select(cast(events.c.payload, Text))
        .where(its_events(), events.c.seq == func.any(bindparam("seqs", type_=ARRAY(BigInteger))))
        .order_by(events.c.seq)
    )
    return Statement(
        select(func.array(chosen.scalar_subquery()).label("payloads"))
        .select_from(sessions)
        .where(live_session(), expected(later=True))
    )


def _outline(parsed: Any) -> ColumnElement[Any]:
    """An event's outline, without what is null or empty; see `outline.Outline`."""
    actions, compaction = _EVENT.op("->")(_text("actions")), _EVENT.op("#>")(_path("compaction"))
    said = compaction.op("->")(_text("compacted_content")).is_not(null())
    fields: dict[str, ColumnElement[Any]] = {
        "seq": parsed.c.seq,
        "size": func.octet_length(parsed.c.text),
        "raw": case((_EVENT.is_(null()), parsed.c.text)),
        "invocation_id": _EVENT.op("->")(_text("invocation_id")),
        "author": _EVENT.op("->")(_text("author")),
        "scope": _EVENT.op("->")(_text("isolation_scope")),
        "branch": _EVENT.op("->")(_text("branch")),
        "time": _EVENT.op("->")(_text("timestamp")),
        "rewound": actions.op("->")(_text("rewind_before_invocation_id")),
        "summary": case(
            (
                func.jsonb_typeof(compaction) == _text("object"),
                func.jsonb_build_array(
                    compaction.op("->")(_text("start_timestamp")),
                    compaction.op("->")(_text("end_timestamp")),
                    said,
                ),
            )
        ),
        "calls": _found("$.content.parts[*].function_call.id"),
        "answers": _found("$.content.parts[*].function_response.id"),
        "long_running": _EVENT.op("->")(_text("long_running_tool_ids")),
        "paused": actions.op("->")(_text("agent_state")).is_not(null()),
        "ended": actions.op("->")(_text("end_of_agent")),
        "results": _found(
            '$.content.parts[*].function_response ? (@.name == "finish_task").response.result'
        ),
    }
    pairs = [each for name, value in fields.items() for each in (_text(name), value)]
    return func.jsonb_strip_nulls(func.jsonb_build_object(*pairs))


def _text(word: str) -> ColumnElement[str]:
    return literal_column(f"'{word}'", Text)


def _path(name: str) -> ColumnElement[Any]:
    return literal_column(f"'{{actions,{name}}}'::text[]")


def _found(path: str) -> ColumnElement[Any]:
    """What a path finds; null if it finds nothing."""
    found = func.jsonb_path_query_array(_EVENT, literal_column(f"'{path}'::jsonpath"))
    return func.nullif(found, literal_column("'[]'::jsonb"))
