"""Vocabulary: what SQL a backup of adkpg's tables needs, so that a restore runs nothing else.

A backup is SQL that its writer chose. What makes tables, indexes and triggers is let through if all
that it calls is called by adkpg's own migrations; a function, if its body is one of theirs.
"""

import re
from functools import cache

from adkpg.database import row_security
from adkpg.database.migrating import migrations
from adkpg.errors import ConfigurationError

_SETTINGS = (
    "check_function_bodies|client_min_messages|default_table_access_method|"
    "default_tablespace|idle_in_transaction_session_timeout|lock_timeout|row_security|"
    "statement_timeout|transaction_timeout|xmloption"
)
_KINDS = re.compile(
    # Other encodings and quotes would hide statements in what reads as a text here.
    r"SET (client_encoding = 'UTF8'|standard_conforming_strings = on);$|"
    rf"SET ({_SETTINGS}) = |SELECT pg_catalog\.(set_config|setval)\(|COMMENT ON |"
    "CREATE (TABLE|SEQUENCE|INDEX|UNIQUE INDEX|TRIGGER|FUNCTION|SCHEMA) |ALTER (TABLE|SEQUENCE) "
)
_RESTRICTING = re.compile(r"\\(un)?restrict \w+")  # pg_dump's own, since 2025
_TRICKS = re.compile(r"--|/\*|\$|\\|[A-Za-z&]''|;.", re.DOTALL)
"""Comments, other quotes, and a second statement, once texts are empty."""

_TEXT = re.compile(r"'(?:[^']|'')*'")
_FUNCTION = re.compile(r"(CREATE FUNCTION [^$]*) AS (\$\w*\$)(.*)\2;", re.DOTALL)
_MADE_FUNCTION = re.compile(r'CREATE (?:OR REPLACE )?FUNCTION "\w+"\.(\w+)\(')
_QUOTE = re.compile(r"\$\w*\$")
_CALL = re.compile(r"([^\s(),.;:='\[\]<>+*/|&-]+)\s*\(")
_MADE_OF = re.compile("(CREATE|ALTER) (TABLE|INDEX|UNIQUE INDEX|SEQUENCE|TRIGGER) ")
_PLACE = re.compile(r'(?<![\w".$])("(?:[^"]|"")+"|[^\W\d][\w$]*)\.')
# Words before a parenthesis that are no calls, as Postgres writes what the migrations said.
_WORDS = {"all", "and", "any", "array", "as", "btree", "by", "check", "columns", "exists", "from"}
_WORDS |= {"gin", "halfvec", "hnsw", "identity", "in", "include", "key", "not", "or", "references"}
_WORDS |= {"return", "returns", "set_config", "setval", "table", "then", "time", "unique", "using"}
_WORDS |= {"values", "varying", "when", "where", "with", "zone"}


@cache
def _own(schema: str) -> str:
    return migrations.sql(schema) + row_security.functions(schema)


def own_functions(schema: str) -> frozenset[str]:
    """Returns the names of the functions that this version makes."""
    return frozenset(_MADE_FUNCTION.findall(_own(schema)))


class Vocabulary:
    """Takes a script line by line, and refuses what adkpg's tables do not need.

    Args:
      schema: The tables'.
    """

    def __init__(self, schema: str) -> None:
        self._own = _own(schema)
        self._calls = _WORDS | {call.lower() for call in _CALL.findall(self._own)}
        self._quotes = {*_QUOTE.findall(self._own)}
        self._places = {schema, f'"{schema}"', "pg_catalog", "old", "new"}
        self._begun = ""

    def take(self, line: bytes) -> None:
        """Takes a line that is no row of a table.

        Raises:
          ConfigurationError: It ends a statement that was not of adkpg's tables.
        """
        text = line.decode(errors="replace")
        if not self._begun and (not text.strip() or text.startswith("--")):
            return
        self._begun += text
        statement = self._begun.strip()
        if _RESTRICTING.fullmatch(statement):
            self._begun = ""
        elif statement.startswith("\\"):
            self._refuse(statement)
        elif statement.endswith(";") and not self._is_within_a_body(statement):
            self._begun = ""
            if not self._knows(statement):
                self._refuse(statement)

    def end(self) -> None:
        """Takes the end of the script.

        Raises:
          ConfigurationError: A statement has no end.
        """
        if self._begun:
            self._refuse(self._begun.strip())

    def _is_within_a_body(self, statement: str) -> bool:
        quote = _QUOTE.search(statement)
        return (
            quote is not None
            and statement.startswith("CREATE FUNCTION ")
            and (statement.count(quote[0]) < 2 or not statement.endswith(f"{quote[0]};"))
        )

    def _knows(self, statement: str) -> bool:
        if not _KINDS.match(statement):
            return False
        if (function := _FUNCTION.fullmatch(statement)) is not None:
            if not any(f"{quote}{function[3]}{quote}" in self._own for quote in self._quotes):
                return False
            statement = f"{function[1]};"
        plain = _TEXT.sub("''", statement)
        if _TRICKS.search(plain):
            return False
        if _MADE_OF.match(plain) and not {*_PLACE.findall(plain)} <= self._places:
            return False
        return {call.strip('"').lower() for call in _CALL.findall(plain)} <= self._calls

    def _refuse(self, statement: str) -> None:
        raise ConfigurationError(
            f"The backup has SQL that tables of adkpg do not need ({statement[:80]!r}), which no "
            "restore runs; use an unchanged backup, or remove these objects from the schema "
            "before you back it up."
        )
