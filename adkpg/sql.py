"""Typed statements, and the clauses that many of them share. No I/O."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar

from sqlalchemy import (
    CTE,
    BindParameter,
    ColumnElement,
    Float,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REGCONFIG, TIMESTAMP
from sqlalchemy.dialects.postgresql.asyncpg import PGCompiler_asyncpg, dialect
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import TableValuedAlias
from sqlalchemy.types import NULLTYPE

from adkpg.queries import PLACEHOLDER, Place, quoted
from adkpg.tables import SCHEMA, app_settings, memories, memory_tombstones, sessions

CONTENT_LIMIT = 500_000
"""Longest content of a hit, in bytes of JSON; of a longer one, the text that is searched."""

INDEXED_CONDITIONS = frozenset({"kinds", "session_ids"})
"""Conditions of `SearchFilters` that an index may serve."""

ParametersT = TypeVar("ParametersT", bound=Mapping[str, object])

_DIALECT: Any = dialect()  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped
_INTEGERS = 2**31
# A statement is sent, parsed and planned anew wherever plans are not kept: it is written short.
_IS_QUALIFIED = re.compile(r"^__\[SCHEMA_[^\]]*\]\.")  # SQLAlchemy's mark of a schema
_IS_NAMED = re.compile(r'^([\w"]+\.("?\w+"?)) AS \2$')
_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_CHANGES = re.compile(r"\b(?:INSERT|DELETE|(?<!FOR )(?<!KEY )UPDATE)\b")
_WRITES = re.compile(rf"\b(?:INSERT|UPDATE|DELETE)\b|{PLACEHOLDER}\.\w+\(")
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
        if type(bindparam.type) is Integer and isinstance(value, int) and abs(value) < _INTEGERS:
            return text  # what it is without being told
        return typed(bindparam.type, bindparam.type.dialect_impl(_DIALECT), text)

    def visit_column(self, *args: Any, **options: Any) -> str:
        """Writes no schema in front of a column: FROM says which table it is of."""
        written: Any = super().visit_column
        return _IS_QUALIFIED.sub("", str(written(*args, **options)))

    def visit_label(self, *args: Any, **options: Any) -> str:
        """Gives a column no name that it has."""
        written: Any = super().visit_label
        return _IS_NAMED.sub(r"\1", str(written(*args, **options)))

    def visit_truediv_binary(self, binary: Any, operator: Any, **options: Any) -> str:
        """Divides floats as they are; SQLAlchemy would cast them, in case they are integers."""
        if any(isinstance(side.type, Float) for side in (binary.left, binary.right)):
            left, right = (self.process(side, **options) for side in (binary.left, binary.right))
            return f"{left} / {right}"
        divided: Any = super().visit_truediv_binary
        return str(divided(binary, operator, **options))


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


def _answering(text: str) -> str:
    """Returns a statement whose only row is an array of the rows, in JSON."""
    if not _CHANGES.search(text):
        return f"SELECT coalesce(json_agg(r), '[]') FROM ({text}) r"  # noqa: S608 - our own text
    start, returns = _body(text)
    steps = text[:start].rstrip() + "," if start else "WITH"
    rows = "coalesce(json_agg(r), '[]') FROM answer r" if returns else "'[]'"
    return f"{steps} answer AS ({text[start:]}) SELECT {rows}"


class _Parallel(BindParameter[Any]):
    """A list with an element for each of ``user_ids``, as `given_rows` reads them."""

    inherit_cache = True


class NoParameters(TypedDict):
    """Of statements that take none."""


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
      long: A SELECT about one user that takes longer to plan than to run. Where the plans of
        clients' statements are not kept, a function of the database keeps it.
      place: Where it runs, if the tables are on several servers, and it names no user.

    Attributes:
      names: Of its parameters, in the order of its placeholders.
      kinds: Their types, by name.
      parallel: The lists that have an element for each of ``user_ids``, which `given_rows` reads
        together with these.
      columns: What it returns: names and types; empty, if that is nothing, or it is text.
      long: As given.
      place: As given.
    """

    def __init__(
        self, core: Executable, *, long: bool = False, place: Place = Place.ANYWHERE
    ) -> None:
        compiled: Any = core.compile(  # type: ignore[attr-defined] # Executable is a mixin of ClauseElement
            dialect=_DIALECT,
            schema_translate_map={SCHEMA: PLACEHOLDER},
            render_schema_translate=True,
        )
        self._text = str(compiled)
        self._texts: dict[tuple[str, int | None], str] = {}
        self._fitting: dict[tuple[str, int | None, str], str] = {}
        self._writes: bool | None = None
        self._answering: str | None = None
        self._constants: Mapping[str, object] = {
            name: bind.value for bind, name in compiled.bind_names.items() if not bind.required
        }
        self.parallel = frozenset(
            name for bind, name in compiled.bind_names.items() if isinstance(bind, _Parallel)
        )
        self.names: tuple[str, ...] = tuple(compiled.positiontup or ())
        self.kinds: Mapping[str, Any] = {
            name: bind.type for bind, name in compiled.bind_names.items()
        }
        self.long = long
        self.place = place
        self.columns: Mapping[str, Any] = {}
        if isinstance(core, (Select, UpdateBase)):
            self.columns = {str(name): each.type for name, each in core.exported_columns.items()}

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

    function: str | None = None

    def text(self, schema: str, gate: int | None = None, standing: str | None = None) -> str:
        """Returns the SQL for asyncpg, with the tables in this schema; one string for each.

        Args:
          schema: The schema.
          gate: None, or the statement first enters the scope that so many more arguments name:
            app and user, or none for everybody's rows.
          standing: As for `fitting`.
        """
        if standing is not None:
            return self.fitting(schema, gate, standing)
        text = self._texts.get((schema, gate))
        if text is None:
            text = self._text if gate is None else self._gated(gate)
            text = self._texts[schema, gate] = text.replace(PLACEHOLDER, quoted(schema))
        return text

    def answering(self) -> str:
        """Returns the SQL of one row, an array of its rows in JSON; `PLACEHOLDER` is the schema."""
        if self._answering is None:
            self._answering = _answering(self._text)
        return self._answering

    def fitting(self, schema: str, gate: int | None, server: str) -> str:
        """Returns the SQL for asyncpg that also asks a server of itself.

        Each row has the columns of the server in front of its own, and ``adkpg_row`` is true. There
        is one without a row of the statement if there are no rows.

        Args:
          schema: The schema.
          gate: As for `text`.
          server: A SELECT of one row.
        """
        key = (schema, gate, server)
        if key not in self._fitting:
            own = self._text
            start, _ = _body(own)
            steps = own[:start].rstrip() + "," if start else "WITH"
            condition = ""
            if gate is not None:
                places = ", ".join(f"${len(self.names) + n}" for n in range(1, gate + 1))
                condition = f" WHERE {PLACEHOLDER}.enter_scope({places})"
                if not gate:
                    condition = f" WHERE {PLACEHOLDER}.enter_every_scope()"
            text = (
                f"{steps} scoped AS ({own[start:]}) SELECT server.*, gated.* FROM"  # noqa: S608 - our own text
                f" ({server} OFFSET 0) AS server LEFT JOIN"
                " (SELECT true AS adkpg_row, scoped.* FROM scoped OFFSET 0)"
                f" AS gated ON true{condition}"
            )
            self._fitting[key] = text.replace(PLACEHOLDER, quoted(schema))
        return self._fitting[key]

    def _gated(self, gate: int) -> str:
        """Puts a condition without columns on top, which Postgres checks before it reads a row."""
        places = ", ".join(f"${len(self.names) + n}" for n in range(1, gate + 1))
        function = "enter_scope" if gate else "enter_every_scope"
        condition = f"{PLACEHOLDER}.{function}({places})"
        text = self._text
        start, returns = _body(text)
        steps = text[:start].rstrip() + "," if start else "WITH"
        # OFFSET 0 keeps apart what the statement asks before any row, which might come first.
        gated = "* FROM (SELECT * FROM scoped OFFSET 0) AS gated WHERE "
        rows = f"{gated}{condition}" if returns else f"1 WHERE NOT {condition}"
        return f"{steps} scoped AS ({text[start:]}) SELECT {rows}"

    def arguments(
        self, parameters: ParametersT, scope: tuple[str, ...] | None = None
    ) -> list[object]:
        """Returns the values in the order of the placeholders, and then the scope to enter."""
        constants = self._constants
        given = [constants[name] if name in constants else parameters[name] for name in self.names]
        return [*given, *(scope or ())]


class Call(Statement[ParametersT]):
    """A call of one of adkpg's functions in the database; the row's ``answer`` is what it returns.

    Args:
      function: Its name.
      *names: Those of its parameters, which the TypedDict has too; one that is not given is null.
      entered: Whether it has another one, the last, for the scope that it enters first.
      of_app: Whether it writes what an app's users share, too.
    """

    def __init__(
        self, function: str, *names: str, entered: bool = True, of_app: bool = False
    ) -> None:
        self.function = function
        self.names = names
        self.columns = {"answer": NULLTYPE}
        self.kinds = dict.fromkeys(names, NULLTYPE)
        self.long = False
        self.place = Place.ANYWHERE
        self.of_app = of_app
        self.parallel = frozenset()
        self._constants = {}
        self._texts = {}
        self._fitting = {}
        self._writes = True
        self._answering = None
        self._entered = entered
        places = ", ".join(f"${number}" for number in range(1, len(names) + entered + 1))
        # The last one says where the tables are: a schema can be renamed.
        self._text = f"SELECT {PLACEHOLDER}.{function}({places}, '{PLACEHOLDER}') AS answer"

    def arguments(
        self, parameters: ParametersT, scope: tuple[str, ...] | None = None
    ) -> list[object]:
        """Returns the values in the order of the placeholders, and then the scope to enter."""
        given = [parameters.get(name) for name in self.names]
        if self._entered:
            return [*given, None if scope is None else list(scope)]
        return [*given, *(scope or ())]

    def text(self, schema: str, gate: int | None = None, standing: str | None = None) -> str:
        """Returns the SQL for asyncpg; a function enters the scope by itself, without a gate."""
        return super().text(schema, None if self._entered else gate, standing)


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


def set_for_person(**settings: str | ColumnElement[Any]) -> Statement[Any]:
    """Sets parameters of the server to the transaction's end, where a person's rows are.

    Args:
      **settings: By their names, in which ``__`` stands for a dot.
    """
    calls = select(
        *(
            func.set_config(
                literal_column(f"'{name.replace('__', '.')}'", Text), value, true(), type_=Text
            )
            for name, value in settings.items()
        )
    )
    return Statement(calls.where(APP_NAME.is_not(None), USER_ID.is_not(None)))


def live(rows: Any = memories) -> ColumnElement[bool]:
    """Memories that are recalled: neither expired nor superseded."""
    return or_(rows.c.expires_at.is_(None), rows.c.expires_at > func.now())


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


STORED = tuple(
    memories.c[name]
    for name in (
        *("memory_id", "kind", "session_id", "event_id", "author", "timestamp", "content", "body"),
        *("custom_metadata", "source", "artifacts", "topics", "importance", "expires_at"),
        "superseded_by",
    )
)
"""What `stored_columns` makes its columns of."""


def stored_content() -> ColumnElement[str]:
    """A memory's content as JSON text; made of its body where that says it all."""
    author = memories.c.author
    said = func.substr(memories.c.body, func.coalesce(func.length(author) + 3, 1))
    end = case(
        (author.is_(None), literal_column("'}]}'", Text)),
        (author == literal_column("'user'", Text), literal_column("""'}],"role":"user"}'""", Text)),
        else_=literal_column("""'}],"role":"model"}'""", Text),
    )
    begin = literal_column("""'{"parts":[{"text":'""", Text)
    # As `records.plain_content` writes it.
    plain = func.concat(begin, cast(func.to_json(said), Text), end, type_=Text)
    return func.coalesce(cast(memories.c.content, Text), plain)


def stored_columns(rows: Any = memories, *, cut: bool = False) -> list[ColumnElement[Any]]:
    """The columns that `records.memory` reads.

    The content is null where the body says it all, and the body where it does not; no topics are
    null.

    Args:
      rows: The table, or a step that has its columns `STORED`.
      cut: For searches: a content of more than `CONTENT_LIMIT` bytes is replaced by the text that
        is searched, its first 100,000 characters, and ``cut`` says so.
    """
    content: ColumnElement[Any] = cast(rows.c.content, Text)
    told: ColumnElement[bool] = rows.c.content.is_(None)
    others: list[ColumnElement[Any]] = []
    if cut:
        # The first is known without reading it; a long one may be short as it is stored.
        long = or_(
            func.pg_column_size(rows.c.content) > literal_column(str(CONTENT_LIMIT)),
            func.octet_length(content) > literal_column(str(CONTENT_LIMIT)),
        )
        content, told = case((~long, content)), or_(told, long)
        others = [func.coalesce(long, false()).label("cut")]
    return [
        rows.c.memory_id,
        rows.c.kind,
        rows.c.session_id,
        rows.c.event_id,
        rows.c.author,
        rows.c.timestamp,
        content.label("content"),
        case((told, rows.c.body)).label("body"),
        cast(rows.c.custom_metadata, Text).label("custom_metadata"),
        rows.c.source,
        cast(rows.c.artifacts, Text).label("artifacts"),
        case((func.jsonb_array_length(rows.c.topics) > 0, cast(rows.c.topics, Text))).label(
            "topics"
        ),
        rows.c.importance,
        rows.c.expires_at,
        rows.c.superseded_by,
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
    kind_of_bind = _Parallel if "user_ids" in arrays else bindparam
    binds = [kind_of_bind(name, type_=ARRAY(kind)) for name, kind in arrays.items()]
    columns = [column(name, kind) for name, kind in arrays.items()]
    number = {"with_ordinality": "number"} if numbered else {}
    return func.unnest(*binds).table_valued(*columns, name="given", **number).render_derived()


def to_be_extracted(kind: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether facts are drawn from a memory of this kind: from turns, if the app wants them."""
    wanted = select(app_settings.c.app_name).where(
        app_settings.c.app_name == APP_NAME, app_settings.c.extract_facts
    )
    return and_(kind == literal_column("'turn'"), exists(wanted))
