"""What every module of statements begins with: typed statements, and clauses. No I/O."""

import re
from collections.abc import Mapping
from typing import Any, Generic, TypedDict, TypeVar

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    bindparam,
    cast,
    column,
    exists,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REGCONFIG, TIMESTAMP
from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.selectable import TableValuedAlias

from adkpg.tables import SCHEMA, app_settings, memories

ParametersT = TypeVar("ParametersT", bound=Mapping[str, object])

_DIALECT: Any = dialect()  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped
_PLACEHOLDER = "__schema_of_adkpg__"
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE)\b")


class NoParameters(TypedDict):
    """Of statements that take none."""


class ScopeParameters(TypedDict):
    """Of statements on one user of one app."""

    app_name: str
    user_id: str


class SessionParameters(ScopeParameters):
    """Of statements on one session."""

    session_id: str


class Statement(Generic[ParametersT]):
    """A compiled statement and the type of its parameters, a TypedDict by the names of its binds.

    The TypedDict has the names of all shapes; those that a shape has no bind for are ignored.
    SQLAlchemy's tree is not kept: it takes some hundred kilobytes.

    Args:
      core: The statement as SQLAlchemy has it.
      idempotent: Whether running it twice does what running it once does, so that it is sent again
        when a connection was lost before the answer. Default: whether it only reads.
    """

    def __init__(self, core: Executable, *, idempotent: bool | None = None) -> None:
        compiled: Any = core.compile(  # type: ignore[attr-defined] # Executable is a mixin of ClauseElement
            dialect=_DIALECT,
            schema_translate_map={SCHEMA: _PLACEHOLDER},
            render_schema_translate=True,
        )
        self._text = str(compiled)
        self._texts: dict[str, str] = {}
        self._constants: Mapping[str, object] = {
            name: bind.value for bind, name in compiled.bind_names.items() if not bind.required
        }
        self.names: tuple[str, ...] = tuple(compiled.positiontup or ())
        self.idempotent = not _WRITES.search(self._text) if idempotent is None else idempotent

    @property
    def binds(self) -> set[str]:
        """The names of the parameters that it takes."""
        return {name for name in self.names if name not in self._constants}

    def text(self, schema: str) -> str:
        """Returns the SQL for asyncpg, with the tables in this schema; one string for each."""
        text = self._texts.get(schema)
        if text is None:
            quoted = _DIALECT.identifier_preparer.quote_schema(schema)
            text = self._texts[schema] = self._text.replace(_PLACEHOLDER, quoted)
        return text

    def arguments(self, parameters: ParametersT) -> list[object]:
        """Returns the values in the order of the placeholders."""
        constants = self._constants
        return [constants[name] if name in constants else parameters[name] for name in self.names]


APP_NAME = bindparam("app_name", type_=Text)

USER_ID = bindparam("user_id", type_=Text)

SESSION_ID = bindparam("session_id", type_=Text)


def in_scope(table: Any) -> ColumnElement[bool]:
    """The rows of one user of one app."""
    return and_(table.c.app_name == APP_NAME, table.c.user_id == USER_ID)


def live() -> ColumnElement[bool]:
    """Memories that are recalled: neither expired nor superseded."""
    return or_(memories.c.expires_at.is_(None), memories.c.expires_at > func.now())


def config_of(script: ColumnElement[Any]) -> ColumnElement[Any]:
    """The text search configuration: the app's own, else the script's, else the one that is set.

    Memory and question choose alike. Parameters: app_name, config.
    """
    own = (
        select(app_settings.c.text_search_config)
        .where(app_settings.c.app_name == APP_NAME)
        .scalar_subquery()
    )
    return cast(func.coalesce(own, script, bindparam("config", type_=Text)), REGCONFIG)


def stored_columns() -> list[ColumnElement[Any]]:
    """The columns that `records.memory` reads."""
    return [
        memories.c.memory_id,
        memories.c.kind,
        memories.c.session_id,
        memories.c.event_id,
        memories.c.author,
        memories.c.timestamp,
        cast(memories.c.content, Text).label("content"),
        cast(memories.c.custom_metadata, Text).label("custom_metadata"),
        memories.c.source,
        cast(memories.c.artifacts, Text).label("artifacts"),
        cast(memories.c.topics, Text).label("topics"),
        memories.c.importance,
        memories.c.expires_at,
        memories.c.superseded_by,
    ]


def conditions(asked: frozenset[str]) -> list[ColumnElement[bool]]:
    """What `SearchFilters` asks of a memory; its parameters go by the same names."""

    def any_of(name: str) -> Any:
        return func.any(bindparam(name, type_=ARRAY(Text)))

    known: dict[str, ColumnElement[bool]] = {
        "after": memories.c.timestamp >= bindparam("after", type_=TIMESTAMP(timezone=True)),
        "before": memories.c.timestamp < bindparam("before", type_=TIMESTAMP(timezone=True)),
        "authors": memories.c.author == any_of("authors"),
        "session_ids": memories.c.session_id == any_of("session_ids"),
        "kinds": memories.c.kind == any_of("kinds"),
        "topics": memories.c.topics.op("?|")(bindparam("topics", type_=ARRAY(Text))),
        "metadata": memories.c.custom_metadata.op("@>")(
            cast(bindparam("metadata", type_=Text), JSONB)
        ),
    }
    return [known[name] for name in sorted(asked)]


def given_rows(*, numbered: bool = False, **arrays: Any) -> TableValuedAlias:
    """Rows from parallel array parameters, named after them; with their ``number``, from 1 on."""
    binds = [bindparam(name, type_=ARRAY(kind)) for name, kind in arrays.items()]
    columns = [column(name, kind) for name, kind in arrays.items()]
    number = {"with_ordinality": "number"} if numbered else {}
    return func.unnest(*binds).table_valued(*columns, name="given", **number).render_derived()


def to_be_extracted(kind: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether facts are drawn from a memory of this kind: from turns, if the app wants them."""
    wanted = select(app_settings.c.app_name).where(
        app_settings.c.app_name == APP_NAME, app_settings.c.extract_facts
    )
    return and_(kind == literal_column("'turn'"), exists(wanted))
