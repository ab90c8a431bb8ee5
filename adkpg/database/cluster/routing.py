"""Routing: statements go to the nodes of a Citus cluster that have what they are about.

What names a user is one call of a function, which Citus sends to the user's node, where the
statement runs on the user's part of the tables as on one server (``at_part_1``). What is about
several users is one for each. All else Citus plans itself, over all nodes, except for what `Place`
says.
"""

import re
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import asyncpg

from adkpg.database.cluster.statements import ask_coordinator, at_part
from adkpg.database.sending import (
    Direct,
    Sent,
    answered_by,
    arguments_of,
    name_of,
    placed,
    rows_of,
)
from adkpg.errors import Busy
from adkpg.queries import PLACEHOLDER, Place, Query, Statement, quoted
from adkpg.tables import DISTRIBUTED

_IS_LOCK = re.compile(
    r"\s+FOR (?:NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)(?: OF \w+)?(?: SKIP LOCKED)?"
)
_IS_WRITTEN = re.compile(rf"\b(?:INSERT INTO|UPDATE|DELETE FROM) {PLACEHOLDER}\.(\w+)\b")
# A call that returns something beside is sent to no other node.
_STAYS = ", true AS stays"


class Routed:
    """To tables that Citus distributes; row-level security and a cluster exclude each other.

    Args:
      schema: Where the tables are.

    Attributes:
      users: For each part of the tables a user id that leads there; such a user need not exist.
    """

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self.users: tuple[str, ...] = ()
        self._direct = Direct(schema)

    def sent(
        self,
        query: Query[Any],
        *,
        scope: tuple[str, ...] | None = None,
        standing: str | None = None,
        plans_kept: bool = True,
    ) -> Iterator[Sent]:
        """Yields the calls of the nodes that have the users, else what Citus plans.

        See `Sending.sent`. Users are always sorted, so that two calls that lock rows of the same
        users do not wait for each other.

        Raises:
          Busy: It was to be answered by a standby, which knows nothing of other nodes.
        """
        del scope, plans_kept  # of what one server has alone
        if standing is not None:
            raise Busy("The tables were distributed meanwhile; try again.", written=False)
        statement, parameters = query
        if statement.function is not None and parameters.get("app_delta") is not None:
            for sent in self._direct.sent(query):  # it writes what an app's users share, too
                yield sent._replace(sql=sent.sql + _STAYS)
        elif statement.function in DISTRIBUTED:
            yield from self._direct.sent(query)
        elif "user_id" in statement.names:
            yield self._at_part(query, parameters["user_id"])
        elif "user_ids" in statement.names:
            for user_id, own in split(query):
                yield self._at_part(own, user_id)
        elif statement.place is Place.ANYWHERE:
            for sent in self._direct.sent(query):
                yield sent._replace(sql=_without_locks(sent.sql))
        elif statement.place is Place.EACH_PART:
            for user_id in self.users:
                yield self._at_part(query, user_id)
        else:
            yield self._on_coordinator(query)

    def _at_part(self, query: Query[Any], user_id: str) -> Sent:
        statement = query.statement
        text = statement.answering()
        call, given = at_part(
            user_id=user_id,
            name=name_of(text, long=statement.long),
            statement=text,
            arguments=arguments_of(query),
            written=_written(text) if statement.writes else None,
        )
        return Sent(call.text(self.schema), call.arguments(given), answered_by(statement))

    def _on_coordinator(self, query: Query[Any]) -> Sent:
        text = placed(query.statement.answering(), self.schema)
        asked, given = ask_coordinator(
            schema=quoted(self.schema),
            name=name_of(text, long=False),
            statement=text,
            arguments=arguments_of(query),
        )
        return Sent(
            asked.text(self.schema),
            asked.arguments(given),
            partial(_of_coordinator, query.statement),
        )


def _of_coordinator(statement: Statement, rows: list[Any]) -> list[Any]:
    """Returns what it answered; what it refused is raised as if it had been asked itself."""
    (answer,) = rows
    if not answer["success"]:
        raise asyncpg.InternalServerError(answer["result"])
    return rows_of(statement, answer["result"])


@cache
def _written(text: str) -> list[str]:
    """Returns the tables that a statement writes to; none, if it locks rows."""
    return sorted(set(_IS_WRITTEN.findall(text)))


@cache
def _without_locks(sql: str) -> str:
    """Returns SQL that locks no rows: over all nodes Citus refuses that.

    It would lock the whole of a table that each node has a copy of, on all nodes.
    """
    return _IS_LOCK.sub("", sql)


def split(query: Query[Any]) -> Iterator[tuple[str, Query[Any]]]:
    """Yields each user with the query that is about that one alone.

    Lists that are not `Statement.parallel` are each user's as they are.
    """
    statement, parameters = query
    users = parameters["user_ids"]
    for user in sorted(set(users)):
        cut = {
            name: _of_user(parameters[name], users, user)
            for name in {"user_ids", *statement.parallel}
        }
        yield user, Query(statement, {**parameters, **cut})


def _of_user(values: list[Any] | None, users: list[str], user: str) -> list[Any] | None:
    """Returns the elements of a parallel list that belong to a user; null stands for only nulls."""
    if values is None:
        return None
    return [value for value, each in zip(values, users, strict=True) if each == user]
