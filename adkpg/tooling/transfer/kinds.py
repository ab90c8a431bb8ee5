"""Kinds: the lines of an export, a row of `adkpg.rules.RULES` each. Pure.

A kind's columns are those of its record, or of its table where no record says more. So a new kind
of row that is copied as it is needs a rule and nothing here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Column
from sqlalchemy.dialects.postgresql import JSON, JSONB, TIMESTAMP, UUID

from adkpg.rules import RULES, Rule
from adkpg.tooling.transfer import records

# As `records.plain_content` writes it, where the body says it all.
_CONTENT = """coalesce(t.content::text, concat(
      '{"parts":[{"text":', to_json(substr(t.body, coalesce(length(t.author) + 3, 1)))::text,
      CASE
        WHEN t.author IS NULL THEN '}]}'
        WHEN t.author = 'user' THEN '}],"role":"user"}'
        ELSE '}],"role":"model"}'
      END
    ))::json"""
_USER = "nullif(t.user_id, E'\\x01app')"
_ORIGINS = """(
      SELECT coalesce(json_agg(p.origin_id ORDER BY p.origin_id), '[]')
      FROM {schema}.memory_provenance AS p
      WHERE p.app_name = t.app_name AND p.user_id = t.user_id AND p.memory_id = t.memory_id
    )"""
_MODEL = """(
      SELECT json_build_object('name', m.name, 'dimensions', m.dimensions)
      FROM {schema}.embedding_models AS m
      WHERE m.model_id = t.model_id
    )"""
# Of a session comes what was drawn from its memories, too.
_OF_SESSION = """(t.session_id = :session_id OR EXISTS (
    SELECT FROM {schema}.memory_provenance AS p
    JOIN {schema}.memories AS origin
      ON origin.app_name = p.app_name AND origin.user_id = p.user_id
      AND origin.memory_id = p.origin_id
    WHERE p.app_name = t.app_name AND p.user_id = t.user_id AND p.memory_id = t.memory_id
      AND origin.session_id = :session_id
  ))"""

# What is added to a task is rows of its own, and who works on it renews its end.
_GOING_ON: Mapping[str | None, Mapping[str, Any]] = {
    "task": {"compared": ("session_id", "payload_revision", "payload"), "grows": "revision"}
}


@dataclass(frozen=True)
class Kind:
    """A kind of line.

    Attributes:
      rule: The table's.
      record: The dataclass whose fields are the columns of a line, in their order.
      spelled: Columns that a line has otherwise than the table, as SQL of the table as ``t``.
      of_session: What belongs to a session, as SQL, if its column does not say it all.
      parts: Conditions by which rows come one part after another; None has one part of all.
      within: The kind whose lines the lines of this one follow; None: they stand alone.
      compared: Columns that tell whether a row that is there is the given one; None: all.
      grows: A column that may be larger there, since the row has gone on; None: none may.
    """

    rule: Rule
    record: type
    spelled: Mapping[str, str] = field(default_factory=dict)
    of_session: str | None = None
    parts: tuple[str | None, ...] = (None,)
    within: str | None = None
    compared: tuple[str, ...] | None = None
    grows: str | None = None

    @property
    def type(self) -> str:
        """What its lines call it."""
        assert self.rule.line is not None
        return self.rule.line

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of a line, in their order."""
        return tuple(each.name for each in fields(self.record))

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Reads the record from the values of a line."""
        return TypeAdapter(self.record)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The columns that are ids, which keys of Postgres hold."""
        columns = self.rule.table.columns
        return tuple(
            name
            for name in self.columns
            if name in columns and getattr(columns[name].type, "collation", None) == "C"
        )

    @cached_property
    def escaped(self) -> tuple[str, ...]:
        """The columns that are stored with escapes of what jsonb refuses."""
        columns = self.rule.table.columns
        return tuple(
            name
            for name in self.columns
            if name in columns and isinstance(columns[name].type, JSONB)
        )

    @property
    def is_copied(self) -> bool:
        """Whether its rows are copied as they are, because no record says more of them."""
        return self.type not in _SPECIAL

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that its rows are ordered by within an app."""
        return self.rule.key[1:]


def _kind_of(rule: Rule) -> Kind:
    """Returns the kind of rows that are copied as they are."""
    named = [
        (each.name, _type_of(each))
        for each in rule.table.columns
        if each.name not in rule.without and each.computed is None
    ]
    record = make_dataclass(f"{rule.line}_record", named, frozen=True, kw_only=True)
    spelled = {"user_id": _USER} if rule.personal else {}
    return Kind(rule, record, spelled, **_GOING_ON.get(rule.line, {}))


def _type_of(column: Column[Any]) -> Any:
    if column.name == "user_id":
        return records.User
    kind: Any = column.info.get("in_lines")  # of JSON that is read back as more than JSON
    if kind is None and isinstance(column.type, TIMESTAMP):
        kind = records.Time
    elif kind is None and isinstance(column.type, UUID):
        kind = records.Id
    elif kind is None:
        kind = records.Object if isinstance(column.type, JSON) else column.type.python_type
    return kind | None if column.nullable else kind


_RULES = {rule.line: rule for rule in RULES if rule.line is not None}

_SPECIAL = {
    kind.type: kind
    for kind in (
        Kind(_RULES["app_settings"], records.AppSettingsRecord, {"model": _MODEL}),
        Kind(_RULES["app_state"], records.AppState),
        Kind(_RULES["user_state"], records.UserState),
        Kind(_RULES["tombstone"], records.TombstoneRecord),
        Kind(
            _RULES["memory"],
            records.MemoryRecord,
            {
                "user_id": _USER,
                "session_id": "nullif(t.session_id, '')",
                "content": _CONTENT,
                "origins": _ORIGINS,
            },
            _OF_SESSION,
            # What was drawn from others comes after all of those.
            ("t.kind NOT IN ('fact', 'summary')", "t.kind IN ('fact', 'summary')"),
        ),
        Kind(
            _RULES["artifact"],
            records.ArtifactRecord,
            {"session_id": "nullif(t.session_id, '')"},
            compared=("artifact_id", "size"),  # its bytes may be elsewhere
        ),
        Kind(_RULES["artifact_chunk"], records.ChunkRecord, within="artifact"),
        Kind(
            _RULES["session"],
            records.SessionRecord,
            {"ttl_s": "extract(epoch FROM t.ttl)::float8"},
        ),
        Kind(_RULES["event"], records.EventLine, {"event": "t.payload"}, within="session"),
    )
}

KINDS: Mapping[str, Kind] = {
    **_SPECIAL,
    **{line: _kind_of(rule) for line, rule in _RULES.items() if line not in _SPECIAL},
}
"""All of them. An export has files and sessions last."""
