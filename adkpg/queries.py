"""Queries: SQL from the files beside the modules that name it, typed by a function each. No I/O.

A file has statements under comments such as ``-- name: select_position``. Parameters are written
``:session_id``, as in psql. A name in braces is ``{schema}``, or what the module gives: mostly a
number that it shares.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import cache, wraps
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypedDict, TypeVar, get_args, get_type_hints

from sqlalchemy.dialects import postgresql

PLACEHOLDER = "__schema_of_adkpg__"
"""The schema in texts that say none; the functions of the database know it, too."""

_PREPARER: Any = postgresql.dialect().identifier_preparer  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped

P = ParamSpec("P")
T = TypeVar("T")
RowT = TypeVar("RowT", covariant=True)

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")
_INSERTED = re.compile(r"\{([a-z]\w*)\}")
_CHANGES = ("INSERT ", "UPDATE ", "DELETE ")
_WRITES = re.compile(rf"\b(?:INSERT|UPDATE|DELETE)\b|{PLACEHOLDER}\.\w+\(")
_CALL = re.compile(rf"SELECT {PLACEHOLDER}\.(\w+)\([^()]*\)\s+AS answer$")
_UNNESTED = re.compile(r"\bunnest\(([^()]*)\)")
_PLACE = re.compile(r"\$(\d+)")


class Place(Enum):
    """Where a statement that names no user runs, if the tables are on several servers."""

    ANYWHERE = auto()
    """On the server that is asked, which asks others for what they have."""
    FIRST = auto()
    """On the first one alone, in a transaction of its own: it draws the numbers of models, and the
    installation goes by it."""
    EACH_PART = auto()
    """On each part of the tables by itself, in transactions of their own: the rows come part by
    part, for the caller to put in order."""


class Nothing(TypedDict):
    """A row that is not read."""


class Answer(TypedDict, Generic[T]):
    """The row of a call of one of adkpg's functions."""

    answer: T


@cache
def quoted(schema: str) -> str:
    """Returns a schema's name as SQL has it."""
    return str(_PREPARER.quote_schema(schema))


class Statement:
    """A statement of a file.

    Running one twice does what running it once does, because it is sent again when the connection
    was lost before the answer.

    Args:
      sql: Its text. It is one change, or a SELECT, or a WITH whose last line at the left margin
        that begins with SELECT is what it returns.
      row: The TypedDict of its rows.
      long: A SELECT about one user that takes longer to plan than to run. Where the plans of
        clients' statements are not kept, a function of the database keeps it.
      place: Where it runs, if the tables are on several servers, and it names no user.

    Attributes:
      names: The parameters' names, in the order of its placeholders.
      columns: The names and types of its rows' columns.
      parallel: The lists with an element for each of ``user_ids``: both are unnested together.
      function: The one of adkpg's functions that it calls, if it does nothing else.
      enters: Whether that function is given the scope to enter first, as its last parameter.
      long: As given.
      place: As given.
      writes: Whether it may change something: it has a verb of that, or calls a function of ours.
    """

    def __init__(
        self, sql: str, row: type, *, long: bool = False, place: Place = Place.ANYWHERE
    ) -> None:
        numbers: dict[str, int] = {}

        def numbered(found: re.Match[str]) -> str:
            return f"${numbers.setdefault(found[1], len(numbers) + 1)}"

        text = _PARAMETER.sub(numbered, sql.replace("{schema}", PLACEHOLDER))
        self.enters = "scope" in numbers
        self.names = tuple(name for name in numbers if name != "scope")
        if self.enters and list(numbers)[-1] != "scope":
            raise ValueError(f"The scope is to be the last parameter: {sql}")
        self.row = row
        self.long = long
        self.place = place
        self.writes = _WRITES.search(text) is not None
        called = _CALL.match(text)
        self.function = None if called is None else called[1]
        self.parallel = _parallel(text, self.names)
        steps, rows = _split(text)
        self._text, self._steps, self._rows = map(_narrow, (text, steps, rows))
        self._texts: dict[tuple[str, int | None, str | None], str] = {}

    @property
    def columns(self) -> Mapping[str, Any]:
        """The names and types of its rows' columns."""
        return columns_of(self.row)

    def text(self, schema: str, gate: int | None = None, standing: str | None = None) -> str:
        """Returns the SQL for asyncpg, with the tables in this schema; one string for each.

        Args:
          schema: The schema.
          gate: None, or the statement first enters the scope that so many more arguments name:
            app and user, or none for all users' rows. A function enters it by itself.
          standing: None, or a SELECT of one row that also asks the server of itself. Each row has
            its columns in front of the statement's own, and ``adkpg_row`` is true. If there are no
            rows, there is one without a row of the statement.
        """
        key = (schema, gate, standing)
        if key not in self._texts:
            self._texts[key] = self._made(gate, standing).replace(PLACEHOLDER, quoted(schema))
        return self._texts[key]

    def _made(self, gate: int | None, standing: str | None) -> str:
        if standing is None and (gate is None or self.enters):
            return self._text
        # OFFSET 0 keeps the rows apart from what is asked before any row, which might come first.
        if standing is None:
            rows = f"SELECT * FROM (SELECT * FROM ({self._rows}) AS scoped OFFSET 0) AS gated"  # noqa: S608 - our own text
        else:
            rows = (
                f"SELECT server.*, gated.* FROM ({standing} OFFSET 0) AS server LEFT JOIN"  # noqa: S608 - our own text
                f" (SELECT true AS adkpg_row, scoped.* FROM ({self._rows}) AS scoped OFFSET 0)"
                " AS gated ON true"
            )
        # Postgres checks a condition without columns before it reads a row.
        if gate is None:
            condition = ""
        elif not gate:
            condition = f" WHERE {PLACEHOLDER}.enter_every_scope()"
        else:
            places = ", ".join(f"${len(self.names) + n}" for n in range(1, gate + 1))
            condition = f" WHERE {PLACEHOLDER}.enter_scope({places})"
        return self._steps + rows + condition

    def answering(self) -> str:
        """Returns the SQL of one row, an array of its rows in JSON; `PLACEHOLDER` is the schema."""
        answer = "SELECT coalesce(json_agg(r), '[]') FROM"
        return f"{self._steps}{answer} ({self._rows}) r"

    def arguments(
        self, parameters: Mapping[str, Any], scope: tuple[str, ...] | None = None
    ) -> list[object]:
        """Returns the values in the order of the placeholders, and then the scope to enter.

        Args:
          parameters: By name.
          scope: The app and the user, or nothing for all users' rows; None: there is none.
        """
        given = [parameters[name] for name in self.names]
        if self.enters:
            given.append(None if scope is None else list(scope))
        elif scope is not None:
            given += scope
        return given


class Query(NamedTuple, Generic[RowT]):
    """A statement and what it is asked with; its rows are read by column name.

    Attributes:
      statement: Made once.
      parameters: By name.
    """

    statement: Statement
    parameters: dict[str, Any]


class Queries:
    """The statements of the file beside a module, which has its name.

    Args:
      module: The module's file.
      **inserted: What the names in braces stand for.
    """

    def __init__(self, module: str, **inserted: object) -> None:
        path = Path(module).with_suffix(".sql")
        _, *parts = _NAME.split(path.read_text(encoding="utf-8"))
        self._texts = dict(zip(parts[::2], parts[1::2], strict=True))
        if len(self._texts) < len(parts) // 2:
            raise ValueError(f"{path.name} has two statements of one name")
        self._inserted: Mapping[str, object] = {"schema": "{schema}", **inserted}

    def text(self, name: str, **inserted: object) -> str:
        """Returns the text of a name.

        Args:
          name: Names a statement, or a part of one that the module puts together.
          **inserted: What else the names in braces stand for.
        """
        known = {**self._inserted, **inserted}
        text = _COMMENT.sub("", self._texts[name])
        text = _INSERTED.sub(lambda found: str(known[found[1]]), text)
        return text.strip().removesuffix(";")

    def query(
        self,
        *,
        text: str | None = None,
        long: bool = False,
        place: Place = Place.ANYWHERE,
        **inserted: object,
    ) -> Callable[[Callable[P, Query[RowT]]], Callable[P, Query[RowT]]]:
        """Makes a function without a body return the query of its name.

        Its keyword arguments are the parameters of the statement.

        Args:
          text: The name of a text that several functions share; None is the function's own.
          long: As for `Statement`.
          place: As for `Statement`.
          **inserted: As for `text`.
        """

        def made(function: Callable[P, Query[RowT]]) -> Callable[P, Query[RowT]]:
            (row,) = get_args(get_type_hints(function)["return"])
            sql = self.text(text or function.__name__, **inserted)
            statement = Statement(sql, row, long=long, place=place)
            signature = inspect.signature(function).parameters
            if set(signature) != set(statement.names):
                differing = sorted(set(signature) ^ set(statement.names))
                raise TypeError(f"{function.__qualname__} and its SQL differ in {differing}")
            defaults = {
                name: each.default
                for name, each in signature.items()
                if each.default is not inspect.Parameter.empty
            }

            @wraps(function)
            def query(*args: P.args, **given: P.kwargs) -> Query[RowT]:
                del args  # there are none
                return Query(statement, {**defaults, **given} if defaults else given)

            query.statement = statement  # type: ignore[attr-defined] # for those who look at plans
            return query

        return made


@cache
def columns_of(row: Any) -> Mapping[str, Any]:
    """Returns a TypedDict's names and types; that of a generic one is its argument."""
    given = get_args(row)
    hints = get_type_hints(getattr(row, "__origin__", row))
    return {name: given[0] if isinstance(kind, TypeVar) else kind for name, kind in hints.items()}


def _split(text: str) -> tuple[str, str]:
    """Returns the steps before what a statement returns, and that."""
    if text.startswith(_CHANGES):
        rows = "SELECT * FROM changed" if "RETURNING" in text else "SELECT 0 AS changed"
        return f"WITH changed AS ({text})\n", rows
    if text.startswith("WITH "):
        steps, found, rows = text.rpartition("\nSELECT ")
        if not found:
            raise ValueError(f"A WITH ends with a SELECT at the left margin: {text}")
        return f"{steps}\n", f"SELECT {rows}"
    return "", text


def _narrow(text: str) -> str:
    """A statement is sent and parsed anew wherever plans are not kept: it is sent short."""
    return re.sub(r"\n\s+", "\n", text)


def _parallel(text: str, names: tuple[str, ...]) -> frozenset[str]:
    lists = [
        {names[int(number) - 1] for number in _PLACE.findall(each)}
        for each in _UNNESTED.findall(text)
    ]
    return frozenset().union(*(each for each in lists if "user_ids" in each))
