"""Typed statements, and the clauses that many of them share. No I/O."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar

from sqlalchemy import (
    CTE,
    BindParameter,
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REGCONFIG, TIMESTAMP
from sqlalchemy.dialects.postgresql.asyncpg import PGCompiler_asyncpg, dialect
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.selectable import TableValuedAlias

from adkpg.tables import SCHEMA, app_settings, memories, memory_tombstones, sessions

CONTENT_LIMIT = 500_000
"""Longest content of a hit, in bytes of JSON; of a longer one, the text that is searched."""

INDEXED_CONDITIONS = frozenset({"kinds", "session_ids"})
"""Conditions of `SearchFilters` that an index may serve."""

ParametersT = TypeVar("ParametersT", bound=Mapping[str, object])

_DIALECT: Any = dialect()  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped
_PLACEHOLDER = "__schema_of_adkpg__"
_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_WRITES = re.compile(rf"\b(?:INSERT|UPDATE|DELETE)\b|{_PLACEHOLDER}\.\w+\(")
_TOKENS = re.compile(
    rf"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[()]|\b(?:{"|".join(_VERBS)}|RETURNING)\b"""
)


class _Compiler(PGCompiler_asyncpg):
    """Writes constants into the text, with their types, instead of sending them with each call.

    A search has a hundred; so sent they are encoded and decoded each time, and the planner of a
    kept plan does not know them.
    """

    def visit_bindparam(self, bindparam: BindParameter[Any], *args: Any, **options: Any) -> Any:
        # SQLAlchemy leaves both calls untyped.
        written: Any = super().visit_bindparam
        typed: Any = self.render_bind_cast
        value = bindparam.value
        plain = isinstance(value, int | float) or (isinstance(value, str) and value.isalnum())
        if bindparam.required or not plain:
            return written(bindparam, *args, **options)
        text = written(bindparam, *args, **options | {"literal_binds": True})
        return typed(bindparam.type, bindparam.type.dialect_impl(_DIALECT), text)


_DIALECT.statement_compiler = _Compiler


def _body(text: str) -> tuple[int, bool]:
    """Returns where a statement begins after its WITH, and whether it returns rows."""
    depth, start, returns = 0, -1, False
    for found in _TOKENS.finditer(text):
        token = found[0]
        depth += (token == "(") - (token == ")")
        if depth == 0 and token in _VERBS and start < 0:
            start, returns = found.start(), token == "SELECT"
        returns = returns or (depth == 0 and start >= 0 and token == "RETURNING")
    return start, returns


class NoParameters(TypedDict):
    """Of statements that take none."""


class AppParameters(TypedDict):
    """Of statements on one app."""

    app_name: str


class ScopeParameters(AppParameters):
    """Of statements on one user of one app."""

    user_id: str


class SessionParameters(ScopeParameters):
    """Of statements on one session."""

    session_id: str


class FilterParameters(TypedDict):
    """Conditions of `SearchFilters`; null asks nothing."""

    after: datetime | None
    before: datetime | None
    authors: list[str] | None
    session_ids: list[str] | None
    metadata: str | None
    kinds: list[str] | None
    topics: list[str] | None


class Statement(Generic[ParametersT]):
    """A compiled statement and the type of its parameters, a TypedDict by the names of its binds.

    The TypedDict has the names of all shapes; those that a shape has no bind for are ignored.
    Running one twice does what running it once does, since it is sent again when the connection was
    lost before the answer. SQLAlchemy's tree is not kept: it takes some hundred kilobytes.

    Args:
      core: The statement as SQLAlchemy has it.
    """

    def __init__(self, core: Executable) -> None:
        compiled: Any = core.compile(  # type: ignore[attr-defined] # Executable is a mixin of ClauseElement
            dialect=_DIALECT,
            schema_translate_map={SCHEMA: _PLACEHOLDER},
            render_schema_translate=True,
        )
        self._text = str(compiled)
        self._texts: dict[tuple[str, int | None], str] = {}
        self._fitting: dict[tuple[str, int | None, str], str] = {}
        self._writes: bool | None = None
        self._constants: Mapping[str, object] = {
            name: bind.value for bind, name in compiled.bind_names.items() if not bind.required
        }
        self.names: tuple[str, ...] = tuple(compiled.positiontup or ())
        self.columns = frozenset(core.selected_columns.keys() if isinstance(core, Select) else ())

    @property
    def writes(self) -> bool:
        """Whether it may change something: it has a verb of that, or calls a function of ours."""
        if self._writes is None:
            self._writes = _WRITES.search(self._text) is not None
        return self._writes

    @property
    def binds(self) -> set[str]:
        """The names of the parameters that it takes."""
        return {name for name in self.names if name not in self._constants}

    def text(self, schema: str, gate: int | None = None) -> str:
        """Returns the SQL for asyncpg, with the tables in this schema; one string for each.

        Args:
          schema: The schema.
          gate: None, or the statement first enters the scope that so many more arguments name:
            app and user, or none for everybody's rows.
        """
        text = self._texts.get((schema, gate))
        if text is None:
            quoted = _DIALECT.identifier_preparer.quote_schema(schema)
            text = self._text if gate is None else self._gated(gate)
            text = self._texts[schema, gate] = text.replace(_PLACEHOLDER, quoted)
        return text

    def fitting(self, schema: str, gate: int | None, server: str) -> str:
        """Returns the SQL for asyncpg that asks a server which may not have all: is it fit to say?

        Each row has the columns of the server in front of its own, and ``adkpg_row`` is true. There
        is one without a row of the statement if the server is not fit, or there are no rows.

        Args:
          schema: The schema.
          gate: As for `text`.
          server: A SELECT of one row, whose column ``fits`` says whether it is; ``{1}`` and so on
            are the arguments that follow the statement's own, ``{schema}`` is the schema.
        """
        key = (schema, gate, server)
        if key not in self._fitting:
            count = len(self.names)
            wanted = max((int(number) for number in re.findall(r"\{(\d+)\}", server)), default=0)
            asked = re.sub(r"\{(\d+)\}", lambda found: f"${count + int(found[1])}", server)
            start, _ = _body(self._text)
            steps = self._text[:start].rstrip() + "," if start else "WITH"
            condition = ""
            if gate is not None:
                places = ", ".join(f"${count + wanted + n}" for n in range(1, gate + 1))
                condition = f" WHERE {_PLACEHOLDER}.enter_scope({places})"
                if not gate:
                    condition = f" WHERE {_PLACEHOLDER}.enter_every_scope()"
            text = (
                f"{steps} scoped AS ({self._text[start:]}) SELECT server.*, gated.* FROM"  # noqa: S608 - our own text
                f" ({asked.replace('{schema}', _PLACEHOLDER)} OFFSET 0) AS server LEFT JOIN LATERAL"
                " (SELECT true AS adkpg_row, scoped.* FROM scoped WHERE server.fits OFFSET 0)"
                f" AS gated ON true{condition}"
            )
            quoted = _DIALECT.identifier_preparer.quote_schema(schema)
            self._fitting[key] = text.replace(_PLACEHOLDER, quoted)
        return self._fitting[key]

    def _gated(self, gate: int) -> str:
        """Puts a condition without columns on top, which Postgres checks before it reads a row."""
        places = ", ".join(f"${len(self.names) + n}" for n in range(1, gate + 1))
        function = "enter_scope" if gate else "enter_every_scope"
        condition = f"{_PLACEHOLDER}.{function}({places})"
        start, returns = _body(self._text)
        steps = self._text[:start].rstrip() + "," if start else "WITH"
        # OFFSET 0 keeps apart what the statement asks before any row, which might come first.
        gated = "* FROM (SELECT * FROM scoped OFFSET 0) AS gated WHERE "
        rows = f"{gated}{condition}" if returns else f"1 WHERE NOT {condition}"
        return f"{steps} scoped AS ({self._text[start:]}) SELECT {rows}"

    def arguments(self, parameters: ParametersT) -> list[object]:
        """Returns the values in the order of the placeholders."""
        constants = self._constants
        return [constants[name] if name in constants else parameters[name] for name in self.names]


APP_NAME = bindparam("app_name", type_=Text)

USER_ID = bindparam("user_id", type_=Text)

SESSION_ID = bindparam("session_id", type_=Text)


SESSION_KEY = (sessions.c.app_name, sessions.c.user_id, sessions.c.session_id)


def locked_sessions(wanted: ColumnElement[bool]) -> CTE:
    """The keys of those of some sessions that are wanted and that nobody writes to, locked.

    Parameters: app_names, user_ids, session_ids, in parallel.
    """
    given = given_rows(app_names=Text, user_ids=Text, session_ids=Text)
    return (
        select(*SESSION_KEY)
        .join_from(sessions, given, tuple_(*SESSION_KEY) == tuple_(*given.c))
        .where(wanted)
        .order_by(*SESSION_KEY)
        .with_for_update(skip_locked=True, of=sessions)
        .cte("locked")
    )


def deleted_sessions(locked: CTE) -> Select[Any]:
    """Deletes locked sessions, with their events and files; returns their rows of ``locked``.

    The marks of memories that were deleted from them stay for a while: whoever still has such a
    session may add it to memory once again.
    """

    def of(table: Any) -> list[ColumnElement[bool]]:
        return [table.c[each.name] == locked.c[each.name] for each in SESSION_KEY]

    ending = (
        update(memory_tombstones)
        .where(*of(memory_tombstones))
        .values(needed_at=func.now())
        .cte("ending")
    )
    gone = delete(sessions).where(*of(sessions)).returning(*locked.c).cte("gone")
    return select(gone).add_cte(ending)


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


def stored_columns(*, cut: bool = False) -> list[ColumnElement[Any]]:
    """The columns that `records.memory` reads.

    Args:
      cut: For searches: a content of more than `CONTENT_LIMIT` bytes is replaced by the text that
        is searched, its first 100,000 characters, and ``cut`` says so.
    """
    content: ColumnElement[Any] = cast(memories.c.content, Text)
    others: list[ColumnElement[Any]] = []
    if cut:
        # The first is known without reading it; a long one may be short as it is stored.
        long = or_(
            func.pg_column_size(memories.c.content) > literal_column(str(CONTENT_LIMIT)),
            func.octet_length(content) > literal_column(str(CONTENT_LIMIT)),
        )
        said = func.substr(memories.c.body, func.coalesce(func.length(memories.c.author) + 3, 1))
        part = func.json_build_object(literal_column("'text'"), said)
        beginning = func.json_build_object(
            literal_column("'role'"),
            case(
                (memories.c.author == literal_column("'user'"), literal_column("'user'")),
                else_=literal_column("'model'"),
            ),
            literal_column("'parts'"),
            func.json_build_array(part),
        )
        content = case((long, cast(beginning, Text)), else_=content)
        others = [long.label("cut")]
    return [
        memories.c.memory_id,
        memories.c.kind,
        memories.c.session_id,
        memories.c.event_id,
        memories.c.author,
        memories.c.timestamp,
        content.label("content"),
        cast(memories.c.custom_metadata, Text).label("custom_metadata"),
        memories.c.source,
        cast(memories.c.artifacts, Text).label("artifacts"),
        cast(memories.c.topics, Text).label("topics"),
        memories.c.importance,
        memories.c.expires_at,
        memories.c.superseded_by,
        *others,
    ]


def conditions(asked: frozenset[str]) -> list[ColumnElement[bool]]:
    """What `SearchFilters` asks of a memory; its parameters go by the same names.

    Args:
      asked: The names of conditions; ``others`` is all of those that no index serves, which ask
        nothing where their parameter is null, so that few statements serve all filters.
    """
    binds: dict[str, ColumnElement[Any]] = {
        **{name: bindparam(name, type_=TIMESTAMP(timezone=True)) for name in ("after", "before")},
        **{
            name: bindparam(name, type_=ARRAY(Text))
            for name in ("authors", "session_ids", "kinds", "topics")
        },
        "metadata": bindparam("metadata", type_=Text),
    }
    known: dict[str, ColumnElement[bool]] = {
        "after": memories.c.timestamp >= binds["after"],
        "before": memories.c.timestamp < binds["before"],
        "authors": memories.c.author == func.any(binds["authors"]),
        "session_ids": memories.c.session_id == func.any(binds["session_ids"]),
        "kinds": memories.c.kind == func.any(binds["kinds"]),
        "topics": memories.c.topics.op("?|")(binds["topics"]),
        "metadata": memories.c.custom_metadata.op("@>")(cast(binds["metadata"], JSONB)),
    }
    others = [
        or_(binds[name].is_(None), condition)
        for name, condition in known.items()
        if name not in INDEXED_CONDITIONS
    ]
    given = [known[name] for name in sorted(asked - {"others"})]
    return [*given, *others] if "others" in asked else given


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
