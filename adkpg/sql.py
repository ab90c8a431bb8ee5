"""Typed statements, and the clauses that many of them share. No I/O."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

from sqlalchemy import (
    CTE,
    BindParameter,
    Column,
    ColumnElement,
    Float,
    FromClause,
    Integer,
    Join,
    Select,
    Table,
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
from sqlalchemy.sql.selectable import Alias, TableValuedAlias
from sqlalchemy.types import NULLTYPE

from adkpg.tables import PERSONAL, SCHEMA, app_settings, memories, memory_tombstones, sessions

CONTENT_LIMIT = 500_000
"""Longest content of a hit, in bytes of JSON; of a longer one, the text that is searched."""

INDEXED_CONDITIONS = frozenset({"kinds", "session_ids"})
"""Conditions of `SearchFilters` that an index may serve."""

ParametersT = TypeVar("ParametersT", bound=Mapping[str, object])

# Around what a distributed database alone is told, and around locks, of which it takes a person's.
_USERS, _LOCK, _SHARED_LOCK, _END, _JOIN_LOCK = "\x11", "\x12", "\x13", "\x14", "\x15"
_IS_USERS = re.compile(rf"{_USERS}([^{_END}]*){_END}")
_IS_CONDITION = re.compile(rf"\s+(?:AND|WHERE)\s+{_USERS}[^{_END}]*{_END}")
_IS_LOCK = re.compile(rf"{_LOCK}([^{_END}]*){_END}")
_IS_SHARED_LOCK = re.compile(rf"{_SHARED_LOCK}([^{_END}]*){_END}")
_IS_JOIN_LOCK = re.compile(rf"{_JOIN_LOCK}([^{_END}]*){_END}")

_DIALECT: Any = dialect()  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped
_PLACEHOLDER = "__schema_of_adkpg__"
_END_OF_CALL = ") AS answer"
_INTEGERS = 2**31
# A statement is sent, parsed and planned anew wherever plans are not kept: it is written short.
_IS_QUALIFIED = re.compile(r"^__\[SCHEMA_[^\]]*\]\.")  # SQLAlchemy's mark of a schema
_IS_NAMED = re.compile(r'^([\w"]+\.("?\w+"?)) AS \2$')
_IS_TABLE = re.compile(rf"{_PLACEHOLDER}\.(\w+)\b(?!\()(?: AS (\w+))?")
_IS_WRITTEN = re.compile(rf"\b(?:INSERT INTO|UPDATE|DELETE FROM) {_PLACEHOLDER}\.(\w+)\b")
_OF_PERSONS = {each.name for each in PERSONAL}
_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_CHANGES = re.compile(r"\b(?:INSERT|DELETE|(?<!FOR )(?<!KEY )UPDATE)\b")
_WRITES = re.compile(rf"\b(?:INSERT|UPDATE|DELETE)\b|{_PLACEHOLDER}\.\w+\(")
_TOKENS = re.compile(
    rf"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[()]|\b(?:{"|".join(_VERBS)}|RETURNING)\b"""
)


class _Compiler(PGCompiler_asyncpg):
    """Writes constants into the text, with their types, instead of sending them with each call.

    A search has a hundred; so sent they are encoded and decoded each time, and the planner of a
    kept plan does not know them.
    """

    _froms: Sequence[Any] = ()  # of the innermost SELECT that is written

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

    def _compose_select_body(
        self, text: str, select: Any, compile_state: Any, inner: Any, froms: Any, *args: Any
    ) -> str:
        select = _narrowed(select, [column for each in froms for column in _users(each)])
        composed: Any = super()._compose_select_body
        outer, self._froms = self._froms, froms
        try:
            return str(composed(text, select, compile_state, inner, froms, *args))
        finally:
            self._froms = outer

    def visit_join(self, join: Join, *args: Any, **options: Any) -> str:
        """Narrows the outer side of a join where it is joined: afterwards, others are gone."""
        written: Any = super().visit_join
        text = str(written(join, *args, **options))
        if not join.isouter or join.full:
            return text
        return text + "".join(
            f" AND {self.visit_users(_Users(column))}" for column in _users(join.right)
        )

    def visit_update(self, update_stmt: Any, *args: Any, **options: Any) -> str:
        written: Any = super().visit_update
        return str(written(_narrowed(update_stmt, _changed(update_stmt)), *args, **options))

    def visit_delete(self, delete_stmt: Any, *args: Any, **options: Any) -> str:
        written: Any = super().visit_delete
        return str(written(_narrowed(delete_stmt, _changed(delete_stmt)), *args, **options))

    def visit_users(self, users: "_Users", **options: Any) -> str:
        """Marks where a distributed database is told whose rows of a table are meant."""
        return f"{_USERS}{self.process(users.column, **options)}{_END}"

    def for_update_clause(self, select: Any, **options: Any) -> str:
        """Marks locks: a distributed database takes those on one person's rows alone."""
        written: Any = super().for_update_clause
        text = str(written(select, **options))
        locked = select._for_update_arg.of or self._froms
        tables = [each for source in locked for each in _tables(source)]
        shared = tables and not any("user_id" in each.c for each in tables)
        joined = select._for_update_arg.of and isinstance(self._froms[0], Join)
        return f"{_SHARED_LOCK if shared else _JOIN_LOCK if joined else _LOCK}{text}{_END}"


class _Users(ColumnElement[bool]):
    """That the rows are one person's; see `Statement.text`."""

    __visit_name__ = "users"
    inherit_cache = False

    def __init__(self, column: Column[Any]) -> None:
        self.column = column


def _tables(source: Any) -> Iterator[FromClause]:
    """The tables, or their aliases, that a source of rows has without any statement in between."""
    if isinstance(source, Join):
        yield from _tables(source.left)
        yield from _tables(source.right)
    elif isinstance(source, Table) or (
        isinstance(source, Alias) and isinstance(source.element, Table)
    ):
        yield source


def _users(source: FromClause) -> Iterator[Any]:
    """The columns that say whose the rows of a source are, where no outer join made them."""
    if isinstance(source, Join):
        if not source.full:
            yield from _users(source.left)
            if not source.isouter:
                yield from _users(source.right)
        return
    yield from (each.c.user_id for each in _tables(source) if "user_id" in each.c)


def _changed(change: Any) -> list[Any]:
    """The columns that say whose the rows are that a change writes, or reads beside these."""
    criteria: list[Any] = [
        source for each in change._where_criteria for source in each._from_objects
    ]
    sources = dict.fromkeys([change.table, *criteria])
    return [column for each in sources for column in _users(each)]


def _narrowed(statement: Any, columns: list[Any]) -> Any:
    if columns:
        statement = statement._clone()
        statement._where_criteria += tuple(map(_Users, columns))
    return statement


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


def _named(kind: str, text: str, tables: list[str] | None = None) -> str:
    """A name that stands for a text, and for no other."""
    return f"{kind}_{sha256(repr((text, tables)).encode()).hexdigest()[:32]}"


class _Parallel(BindParameter[Any]):
    """A list with an element for each of ``user_ids``, as `given_rows` reads them."""

    inherit_cache = True


def _of_user(values: list[Any] | None, users: list[str], user: str) -> list[Any] | None:
    """Returns the elements of a parallel list that belong to a user; null stands for only nulls."""
    if values is None:
        return None
    return [value for value, each in zip(values, users, strict=True) if each == user]


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


class Template(NamedTuple):
    """A statement as `select_prepared_1` and `write_prepared_1` take it.

    Attributes:
      name: Stands for the text.
      statement: The text; with tables a format of Postgres, whose arguments are their places.
      tables: The tables' names, quoted and with their schema; None: they are in the text.
      written: How many of these, from the first, it writes to.
    """

    name: str
    statement: str
    tables: list[str] | None
    written: int


class Statement(Generic[ParametersT]):
    """A compiled statement and the type of its parameters, a TypedDict by the names of its binds.

    The TypedDict has the names of all shapes; those that a shape has no bind for are ignored.
    Running one twice does what running it once does, since it is sent again when the connection was
    lost before the answer. SQLAlchemy's tree is not kept: it takes some hundred kilobytes.

    Args:
      core: The statement as SQLAlchemy has it.
      over_nodes: What a distributed database does instead, where the statement is about everybody
        and Citus refuses it.
      long: A SELECT about one user that takes longer to plan than to run. Where the plans of
        clients' statements are not kept, a function of the database keeps it.

    Attributes:
      names: Of its parameters, in the order of its placeholders.
      kinds: Their types, by name.
      parallel: The lists that have an element for each of ``user_ids``, which `given_rows` reads
        together with these; `split` cuts them and no others.
      columns: What it returns: names and types; empty, if that is nothing, or it is text.
    """

    def __init__(
        self, core: Executable, *, over_nodes: Executable | None = None, long: bool = False
    ) -> None:
        self._over_nodes: Statement[ParametersT] | None = None
        if over_nodes is not None:
            self._over_nodes = Statement(over_nodes)
        compiled: Any = core.compile(  # type: ignore[attr-defined] # Executable is a mixin of ClauseElement
            dialect=_DIALECT,
            schema_translate_map={SCHEMA: _PLACEHOLDER},
            render_schema_translate=True,
        )
        self._text = str(compiled)
        self._texts: dict[tuple[str, int | None, bool], str] = {}
        self._fitting: dict[tuple[str, int | None, str], str] = {}
        self._writes: bool | None = None
        self._writes_parts: bool | None = None
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
        self._templates: dict[tuple[str, bool], Template] = {}
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
    def writes_parts(self) -> bool:
        """Whether it writes what is one person's, of tables that are distributed.

        On a cluster the node that has the person does so by `write_prepared_1`, past Citus, which
        may take a part for being where it was before a move, and runs a statement with an INSERT in
        or after a WITH step by step on all nodes.
        """
        if self._writes_parts is None:
            of_one = ("user_id" in self.names and "app_name" in self.names) or self.splits
            written = set(_IS_WRITTEN.findall(self._text))
            self._writes_parts = of_one and bool(written) and written <= _OF_PERSONS
        return self._writes_parts

    @property
    def binds(self) -> set[str]:
        """The names of the parameters that it takes."""
        return {name for name in self.names if name not in self._constants}

    def text(self, schema: str, gate: int | None = None, *, distributed: bool = False) -> str:
        """Returns the SQL for asyncpg, with the tables in this schema; one string for each.

        Args:
          schema: The schema.
          gate: None, or the statement first enters the scope that so many more arguments name:
            app and user, or none for everybody's rows.
          distributed: Every step says of each table with persons' rows whose are meant, though it
            follows from the step before: only so does Citus send it to one node. It locks no
            reference table, which Citus would lock as a whole, on all nodes; nor several users'
            rows, which Citus refuses.
        """
        text = self._texts.get((schema, gate, distributed))
        if text is None:
            quoted = _DIALECT.identifier_preparer.quote_schema(schema)
            text = self._formed(self._text, distributed=distributed)
            text = text if gate is None else self._gated(text, gate)
            text = self._texts[schema, gate, distributed] = text.replace(_PLACEHOLDER, quoted)
        return text

    def template(self, schema: str, *, distributed: bool) -> Template:
        """Returns it as functions of the database take it; one for each schema.

        Args:
          schema: The schema.
          distributed: As for `text`; the tables' places are left to the function.
        """
        found = self._templates.get((schema, distributed))
        if found is None:
            quoted = _DIALECT.identifier_preparer.quote_schema(schema)
            text = _answering(self._formed(self._text, distributed=distributed, hidden=True))
            tables: list[str] | None = None
            written = dict.fromkeys(_IS_WRITTEN.findall(text))
            if distributed:
                names = list(dict.fromkeys([*written, *(e[1] for e in _IS_TABLE.finditer(text))]))
                text = _IS_TABLE.sub(
                    lambda found: f"%{names.index(found[1]) + 1}$s AS {found[2] or found[1]}",
                    text.replace("%", "%%"),
                )
                tables = [f"{quoted}.{each}" for each in names]
            text = text.replace(_PLACEHOLDER, quoted)
            kind = "adkpw" if written else "adkpg"  # each is kept by itself
            found = self._templates[schema, distributed] = Template(
                _named(kind, text, tables), text, tables, len(written)
            )
        return found

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
            own = self._formed(self._text, distributed=False)
            start, _ = _body(own)
            steps = own[:start].rstrip() + "," if start else "WITH"
            condition = ""
            if gate is not None:
                places = ", ".join(f"${len(self.names) + n}" for n in range(1, gate + 1))
                condition = f" WHERE {_PLACEHOLDER}.enter_scope({places})"
                if not gate:
                    condition = f" WHERE {_PLACEHOLDER}.enter_every_scope()"
            text = (
                f"{steps} scoped AS ({own[start:]}) SELECT server.*, gated.* FROM"  # noqa: S608 - our own text
                f" ({server} OFFSET 0) AS server LEFT JOIN"
                " (SELECT true AS adkpg_row, scoped.* FROM scoped OFFSET 0)"
                f" AS gated ON true{condition}"
            )
            quoted = _DIALECT.identifier_preparer.quote_schema(schema)
            self._fitting[key] = text.replace(_PLACEHOLDER, quoted)
        return self._fitting[key]

    def form(self, *, distributed: bool) -> "Statement[ParametersT]":
        """Returns itself, or what a distributed database does instead."""
        return self._over_nodes or self if distributed else self

    @property
    def splits(self) -> bool:
        """Whether it is about several users, who are on several nodes of a distributed database."""
        return "user_ids" in self.names and "user_id" not in self.names

    def split(self, parameters: ParametersT) -> Iterator[ParametersT]:
        """Yields the parameters of each user by itself, where `splits`; else all.

        Nothing for no users: some statements Citus could send nowhere. The users come in one order
        whoever asks, so that two who lock rows of the same ones do not wait for each other. Lists
        that are not `parallel` are each user's as they are.
        """
        given: Mapping[str, Any] = parameters
        if not self.splits or len(set(given["user_ids"])) == 1:
            yield parameters
            return
        users = given["user_ids"]
        for user in sorted(set(users)):
            cut = {
                name: _of_user(given[name], users, user) for name in {"user_ids", *self.parallel}
            }
            own: Any = {**given, **cut}
            yield own

    def _formed(self, text: str, *, distributed: bool, hidden: bool = False) -> str:
        """Returns a text without marks; a `hidden` one is not seen by Citus."""
        user = None
        if distributed:
            text = _IS_SHARED_LOCK.sub("", text)
            # With an INSERT, steps are sent one by one, and of one that locks one table of a join
            # Citus misreads the rows.
            misread = not hidden and "INSERT" in text
            text = _IS_JOIN_LOCK.sub("" if misread else rf"{_LOCK}\1{_END}", text)
            if "user_id" in self.names:
                user = f"${self.names.index('user_id') + 1}::VARCHAR"
            elif self.splits:
                user = f"(${self.names.index('user_ids') + 1}::VARCHAR[])[1]"
            else:
                # Over all nodes it would be refused; whoever is in the way is waited for.
                text = _IS_LOCK.sub("", text)
        for lock in (_IS_LOCK, _IS_SHARED_LOCK, _IS_JOIN_LOCK):
            text = lock.sub(r"\1", text)
        if user is None:
            return _IS_CONDITION.sub("", text)
        return _IS_USERS.sub(lambda found: f"{found[1]} = {user}", text)

    def _gated(self, text: str, gate: int) -> str:
        """Puts a condition without columns on top, which Postgres checks before it reads a row."""
        places = ", ".join(f"${len(self.names) + n}" for n in range(1, gate + 1))
        function = "enter_scope" if gate else "enter_every_scope"
        condition = f"{_PLACEHOLDER}.{function}({places})"
        start, returns = _body(text)
        steps = text[:start].rstrip() + "," if start else "WITH"
        # OFFSET 0 keeps apart what the statement asks before any row, which might come first.
        gated = "* FROM (SELECT * FROM scoped OFFSET 0) AS gated WHERE "
        rows = f"{gated}{condition}" if returns else f"1 WHERE NOT {condition}"
        return f"{steps} scoped AS ({text[start:]}) SELECT {rows}"

    def arguments(self, parameters: ParametersT) -> list[object]:
        """Returns the values in the order of the placeholders."""
        constants = self._constants
        return [constants[name] if name in constants else parameters[name] for name in self.names]

    def entering(self, arguments: list[object], scope: tuple[str, ...]) -> list[object]:
        """Returns the arguments with those that enter a scope first.

        Args:
          arguments: Those without a scope.
          scope: The app and the user, or nothing for everybody's rows.
        """
        return [*arguments, *scope]


class Call(Statement[ParametersT]):
    """A call of one of adkpg's functions in the database; the row's ``answer`` is what it returns.

    Args:
      function: Its name.
      *names: Those of its parameters, which the TypedDict has too; one that is not given is null.
      entered: Whether it has another one, the last, for the scope that it enters first.
      in_part: Whether, on a cluster, the node that has the person runs it, and tells it so.
    """

    def __init__(
        self, function: str, *names: str, entered: bool = True, in_part: bool = False
    ) -> None:
        self.function = function
        self.names = names
        self._over_nodes = None
        self.columns = {"answer": NULLTYPE}
        self.kinds = dict.fromkeys(names, NULLTYPE)
        self.long = False
        self._templates = {}
        self.parallel = frozenset()
        self._constants = {}
        self._texts = {}
        self._fitting = {}
        self._writes = True
        self._writes_parts = in_part
        self._entered = entered
        places = ", ".join(f"${number}" for number in range(1, len(names) + entered + 1))
        # In no other form does Citus send it to the node that has the user.
        # The last one says where the tables are: a schema can be renamed.
        self._text = f"SELECT {_PLACEHOLDER}.{function}({places}, '{_PLACEHOLDER}'{_END_OF_CALL}"

    def arguments(self, parameters: ParametersT) -> list[object]:
        """Returns the values in the order of the placeholders."""
        given = [parameters.get(name) for name in self.names]
        return [*given, None] if self._entered else given

    def text(self, schema: str, gate: int | None = None, *, distributed: bool = False) -> str:
        """Returns the SQL for asyncpg; a function enters the scope by itself, without a gate."""
        return super().text(schema, None if self._entered else gate, distributed=distributed)

    def template(self, schema: str, *, distributed: bool) -> Template:
        """Returns it as functions of the database take it, on the node that has the person."""
        found = self._templates.get((schema, distributed))
        if found is None:
            call = self._text.removesuffix(_END_OF_CALL)
            if self._entered:
                call = call.replace(f"${len(self.names) + 1},", "NULL,")
            text = _answering(f"{call}, in_part => true{_END_OF_CALL}")
            quoted = _DIALECT.identifier_preparer.quote_schema(schema)
            text = text.replace(_PLACEHOLDER, quoted)
            found = self._templates[schema, distributed] = Template(
                _named("adkpw", text), text, [], 0
            )
        return found

    def entering(self, arguments: list[object], scope: tuple[str, ...]) -> list[object]:
        """Returns the arguments with the scope that the function enters first."""
        return [*arguments[:-1], list(scope)] if self._entered else [*arguments, *scope]


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


def at_person() -> Any:
    """One row, which a distributed database works out on the node that has the user."""
    its = select(func.count().label("rows")).where(in_scope(sessions), sessions.c.session_id == "")
    return its.subquery("at_person")


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
    # Citus tells the other nodes nothing of it.
    return Statement(calls, over_nodes=calls.select_from(at_person()))


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
    """Rows from parallel array parameters, named after them; with their ``number``, from 1 on.

    With ``user_ids`` among them, a distributed database is sent those of each user by themselves.
    """
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
