"""Scripts: the SQL that pg_restore makes of a backup, read line by line."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from adkpg.database.migrating import migrations
from adkpg.tables import REGISTER
from adkpg.tooling.backup.vocabulary import Vocabulary

_COPY = re.compile(rb'COPY "?([a-z0-9_]+)"?\."?([a-z0-9_]+)"? \(.*\) FROM stdin;')
_END = b"\\."
# Debian's PostgreSQL 15 keeps this of each column, and a newer pg_dump takes it for an option.
_OWN_OPTION = re.compile(rb"ALTER TABLE ONLY \S+ ALTER COLUMN \S+ SET \(pg_attver=\d+\);")
_NEW_SETTING = b"SET transaction_timeout = 0;"  # pg_restore 17 sets it, and older servers have none
# The names of its types and operator classes, whatever schema they were in.
_OF_PGVECTOR = re.compile(
    rb'(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)\.'
    rb"((?:(?:half|sparse)?vec(?:tor)?(?:_\w+_ops)?|bit_\w+_ops)(?![\w.]))"
)
_FUNCTION = re.compile(rb'CREATE FUNCTION "?\w+"?\.(\w+)\(')
_POLICY = re.compile(rb"CREATE POLICY |ALTER TABLE .* (ENABLE|FORCE) ROW LEVEL SECURITY;$")


class Script:
    """Passes a script's lines on, and counts the rows of each table.

    Args:
      schema: The schema of the tables.
      runs: Whether the lines will be run: what tables of adkpg do not need is then refused.
      pgvector: The schema of pgvector where they will be, as SQL has it.

    Attributes:
      rows: Number of rows by table; tables without any too.
      revision: The tables'; None until it was read.
      functions: The names of the functions.
    """

    def __init__(self, schema: str, *, runs: bool = False, pgvector: str = "public") -> None:
        self._vocabulary = Vocabulary(schema) if runs else None
        self.rows: Counter[str] = Counter()
        self.revision: str | None = None
        self.functions: set[str] = set()
        self._pgvector = pgvector.encode()
        self._schema = schema.encode()

    def lines(self, script: Iterable[bytes], *, server_major: int) -> Iterator[bytes]:
        """Yields what is to be run: without the schema's creation, and what the server lacks."""
        left_out = {b"CREATE SCHEMA " + self._schema + b";"}
        if server_major < 17:
            left_out.add(_NEW_SETTING)
        policy = False
        table: str | None = None  # whose rows these are; "" of another schema
        for line in script:
            text = line.rstrip(b"\n")
            if table is not None:
                if text == _END:
                    table = None
                elif table:
                    self.rows[table] += 1
                    if table in (REGISTER, migrations.EARLIER_REGISTER):
                        self.revision = text.decode().partition("\t")[0]
            elif found := _COPY.fullmatch(text):
                table = found[2].decode() if found[1] == self._schema else ""
                if table:
                    self.rows[table] += 0
            elif text in left_out or _OWN_OPTION.fullmatch(text):
                continue
            else:
                if made := _FUNCTION.match(text):
                    self.functions.add(made[1].decode())
                if self._vocabulary is not None and not policy and not _POLICY.match(text):
                    self._vocabulary.take(_OF_PGVECTOR.sub(rb"\1", line))
                line = _OF_PGVECTOR.sub(lambda found: self._pgvector + b"." + found[1], line)
            policy = policy or (table is None and _POLICY.match(text) is not None)
            if not policy:  # the upgrade that follows makes them, if they are wanted
                yield line
            policy = policy and not text.endswith(b";")
        if self._vocabulary is not None:
            self._vocabulary.end()

    def read(self, script: Iterable[bytes]) -> None:
        """Only counts."""
        for _ in self.lines(script, server_major=17):
            continue
