"""How writes travel: statements of CTEs, as adkpg sends them, alongside SQL functions.

    python -m benchmarks.scripts.writes [--calls 240] [--pooler PGBOUNCER ...]

Three forms of the same call, through the same driver: `statement` is adkpg's own; `wrapped` is
that text as the body of a function; `function` is plain statements one after another in a function
(writes.sql). They are measured in turn, in blocks, in one run: with and without prepared
statements, directly, over a network of 1 ms, and through each PgBouncer that is named (in
transaction mode), for one client and for eight. Before that, the rows that the forms write are
compared. Everything happens in a database of its own on ADKPG_DATABASE_URL's server, else on the
embedded one; poolers need a server with a Unix socket.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from rich.console import Console
from rich.table import Table

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.memory.drafts import Draft, as_json, drafts_of_events
from adkpg.memory.search.options import Mode
from adkpg.memory.write import apply
from adkpg.memory.write.plan import new_place
from adkpg.sql import SessionParameters
from benchmarks.network import Network
from benchmarks.server import chosen_server, own_database

APP = "writes"
INGEST_OF_10 = "ingest of 10 turns"
SET_SCOPE = "SELECT set_config('adkpg.user_id', $1, true)"
ROLE = f"adkpg_writes_{os.getpid()}"
TEXT = "I always travel by train, never by plane, since my flight to Lisbon was so bumpy in {}."
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FORMS = ("statement", "wrapped", "function")
BLOCK = 12
CLIENTS = 8


class Recording(Database):
    """Keeps what was sent last."""

    last: tuple[Any, Any]

    async def fetch(self, statement: Any, parameters: Any, **options: Any) -> Any:
        self.last = (statement, parameters)
        return await super().fetch(statement, parameters, **options)

    def text(self) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        """The SQL of what was sent last, and its arguments by name, in order."""
        statement, parameters = self.last
        values = dict(zip(statement.names, statement.arguments(parameters), strict=True))
        return statement.text(self.schema), statement.names, values


@dataclass(frozen=True)
class Call:
    """A statement of adkpg with the arguments of one call; others are put in by name."""

    sql: str
    names: tuple[str, ...]
    values: dict[str, Any]

    def arguments(self, **others: Any) -> list[Any]:
        return [others.get(name, self.values[name]) for name in self.names]


@dataclass
class Direct:
    """What `adkpg.memory.write.apply` takes for a transaction, on a plain connection."""

    connection: Any
    database: Recording

    async def fetch(self, statement: Any, parameters: Any) -> Any:
        return await self.connection.fetch(
            statement.text(self.database.schema), *statement.arguments(parameters)
        )


def said(number: int) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=TEXT.format(number))])
    return Event(id=f"e{number}", author="user", content=content, timestamp=NOON.timestamp())


class Axis:
    """An embedder whose vectors need no model."""

    model, dimensions, floor = "axis", 384, 0.0

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        return [1.0 + (hash((text, place)) % 97) / 97 for place in range(self.dimensions)]


async def recorded(database: Recording) -> dict[str, Call]:
    """Runs each call of the services once and returns what they sent."""
    calls: dict[str, Call] = {}
    sessions = DatabaseSessionService(database, remember=True)
    memory = PgVectorMemoryService(database, embedder=Axis())
    scope = {"app_name": APP, "user_id": "recorded"}
    shared = {"user:mood": "good", "app:mood": "good"}
    session = await sessions.create_session(**scope, state=shared)
    calls["create"] = Call(*database.text())
    silent = Event(author="tool", timestamp=NOON.timestamp())
    await sessions.append_event(session, silent)
    calls["append"] = Call(*database.text())
    deltas = EventActions(state_delta=shared)
    await sessions.append_event(session, silent.model_copy(update={"id": "x", "actions": deltas}))
    calls["append, user: and app:"] = Call(*database.text())
    await sessions.append_event(session, said(0))
    calls["append, remember"] = Call(*database.text())
    events = [said(number) for number in range(100)]
    await memory.add_events_to_memory(app_name=APP, user_id="asked", session_id="s", events=events)
    modes: tuple[Mode, ...] = ("text", "hybrid")
    for mode in modes:
        query = "Who travels to Lisbon by train?"
        await memory.search(app_name=APP, user_id="asked", query=query, mode=mode)
        calls[f"search, {mode}"] = Call(*database.text())
    return calls


async def wrap(connection: Any, calls: dict[str, Call]) -> dict[str, Call]:
    """Makes each statement the body of a function, and returns the calls of those."""
    wrapped = {}
    for number, (name, whole) in enumerate(calls.items()):
        call = inlined(whole)
        prepared = await connection.prepare(call.sql)
        given = ", ".join(_type(each) for each in prepared.get_parameters())
        columns = ", ".join(f'"{a.name}" {_type(a.type)}' for a in prepared.get_attributes())
        await connection.execute(f"CREATE TYPE tried.row_{number} AS ({columns})")
        body = f"BEGIN RETURN QUERY {call.sql}; END"
        await connection.execute(
            f"CREATE FUNCTION tried.wrapped_{number}({given}) RETURNS SETOF tried.row_{number} "
            f"LANGUAGE plpgsql AS $body$ #variable_conflict use_column\n{body} $body$"
        )
        places = ", ".join(f"${place}" for place in range(1, len(call.names) + 1))
        sql = f"SELECT * FROM tried.wrapped_{number}({places})"  # noqa: S608 - own names
        wrapped[name] = Call(sql, call.names, call.values)
    return wrapped


def inlined(call: Call) -> Call:
    """Writes numbers that are the same in every call into the text: a function has 100 at most."""
    varying = ("revision", "place")
    names = [
        name
        for name in dict.fromkeys(call.names)
        if name in varying or not isinstance(call.values[name], (int, float))
    ]

    def placed(match: re.Match[str]) -> str:
        name = call.names[int(match[1]) - 1]
        return f"${names.index(name) + 1}" if name in names else repr(call.values[name])

    return Call(re.sub(r"\$(\d+)", placed, call.sql), tuple(names), call.values)


def _type(kind: Any) -> str:
    name = kind.name.removesuffix("[]")
    schema = "" if kind.schema in ("pg_catalog", "") else f'"{kind.schema}".'
    return f'{schema}"{name}"' + ("[]" if kind.name.endswith("[]") else "")


APPEND = (
    "SELECT tried.append_event($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
)
APPEND_NAMES = (
    *("app_name", "user_id", "session_id", "event_id", "timestamp", "payload"),
    *("session_delta", "app_delta", "user_delta", "incarnation", "revision"),
    *("revision_token", "place", "memories", "config"),
)
CREATE = "SELECT tried.create_session($1, $2, $3, $4, $5, $6, $7)"
CREATE_NAMES = (
    *("app_name", "user_id", "session_id", "session_state", "app_delta", "user_delta"),
    "timestamp",
)
INGEST = "SELECT tried.ingest($1, $2, $3, $4, $5, $6)"


def plain(calls: dict[str, Call], wrapped: dict[str, Call]) -> dict[str, Call]:
    """The calls of the functions of plain statements; a search is the wrapped one."""
    given: dict[str, Call] = {}
    for name, call in calls.items():
        sql, names = (CREATE, CREATE_NAMES) if name == "create" else (APPEND, APPEND_NAMES)
        if name.startswith("search"):
            given[name] = wrapped[name]
        else:
            given[name] = Call(sql, names, {each: call.values.get(each) for each in names})
    return given


@dataclass
class Client:
    """One writer: its connection, and a session that it appends to for each form.

    Attributes:
      scoped: The forms that are sent in a transaction which first sets the scope of row-level
        security.
    """

    connection: Any
    user: str
    database: Recording
    forms: dict[str, dict[str, Call]]
    drafts: list[Draft]
    scoped: frozenset[str] = frozenset()
    number: int = 0
    sessions: dict[tuple[str, str], tuple[str, str, int, str]] = field(default_factory=dict)

    async def call(self, form: str, name: str) -> None:
        """Makes one call."""
        self.number += 1
        if name == INGEST_OF_10:
            await self.ingest(form, f"{self.user}-{form}-i{self.number}")
            return
        call = self.forms[form][name]
        user = f"{self.user}-{form}"
        if name.startswith("search"):
            await self.connection.fetch(call.sql, *call.arguments())
        elif name == "create":
            key = f"c{self.number}"
            await self.connection.fetch(call.sql, *call.arguments(user_id=user, session_id=key))
        else:
            await self.append(form, name, call, user)

    async def append(self, form: str, name: str, call: Call, user: str) -> None:
        if (form, name) not in self.sessions:
            create = self.forms["statement"]["create"]
            key = f"{form}-{name}"
            async with self.connection.transaction():
                await self.connection.fetch(SET_SCOPE, user)
                (row,) = await self.connection.fetch(
                    create.sql, *create.arguments(user_id=user, session_id=key)
                )
            marker = (row["incarnation"], row["revision"], row["revision_token"])
            self.sessions[form, name] = (key, *marker)
        key, incarnation, revision, token = self.sessions[form, name]
        given = call.arguments(
            user_id=user,
            session_id=key,
            event_id=f"{self.number}",
            incarnation=incarnation,
            revision=revision,
            revision_token=token,
            **({"memories": self.memory(call, name)} if "remember" in name else {}),
        )
        if form in self.scoped:
            async with self.connection.transaction():
                await self.connection.fetch(SET_SCOPE, user)
                (row,) = await self.connection.fetch(call.sql, *given)
        else:
            (row,) = await self.connection.fetch(call.sql, *given)
        answer = row[0] if form == "function" else row
        if answer["revision"] != revision + 1:
            raise AssertionError(f"{form}: {name} was refused: {answer}")
        self.sessions[form, name] = (key, incarnation, revision + 1, answer["revision_token"])

    def memory(self, call: Call, name: str) -> str:
        """The event's memory, as an append takes it."""
        (given,) = json.loads(call.values["memories"])
        return json.dumps(
            [given | {"event_id": f"{self.number}", "memory_id": f"{name}{self.number}"}]
        )

    async def ingest(self, form: str, key: str) -> None:
        user = f"{self.user}-{form}"
        drafts = [_of(draft, key) for draft in self.drafts]
        if form == "function":
            given = as_json(list(enumerate(drafts)))
            place = (APP, user, key, "english", new_place(user))
            await self.connection.fetch(INGEST, *place, given)
            return
        async with self.connection.transaction():
            transaction: Any = Direct(self.connection, self.database)
            session: SessionParameters = {"app_name": APP, "user_id": user, "session_id": key}
            await apply.ingest(transaction, session, drafts, whole=False, settings=Settings())


def _of(draft: Draft, key: str) -> Draft:
    return replace(draft, session_id=key, memory_id=f"{key}{draft.event_id}")


Calls = dict[str, dict[str, Call]]


@dataclass(frozen=True)
class Way:
    """How a client reaches the server: its URL, and whether it prepares statements."""

    name: str
    url: str
    prepared: bool

    async def connect(self) -> Any:
        size = 100 if self.prepared else 0
        return await asyncpg.connect(
            self.url, statement_cache_size=size, max_cacheable_statement_size=65_536
        )


@contextmanager
def pooled(program: str, url: str) -> Iterator[tuple[str, str]]:
    """Runs a PgBouncer in transaction mode; yields its version and the URL through it."""
    parts = urlsplit(url)
    folder = parse_qs(parts.query)["host"][0]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        owner = os.stat(folder).st_uid
        configuration = Path(directory, "pgbouncer.ini")
        version = subprocess.check_output([program, "--version"], text=True).split()[1]
        several = "max_prepared_statements = 200" if version >= "1.21" else ""
        configuration.write_text(
            f"""[databases]
* = host={folder} port={parse_qs(parts.query).get("port", ["5432"])[0]}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = {CLIENTS}
ignore_startup_parameters = extra_float_digits
{several}
"""
        )
        Path(directory, "users").write_text(f'"{parts.username}" ""\n"{ROLE}" ""\n')
        os.chmod(directory, 0o755)
        me = os.geteuid()
        running = subprocess.Popen(
            [program, "-q", str(configuration)],
            user=owner if me == 0 else None,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            while running.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            path = parts.path
            yield version, f"postgresql://{parts.username}@127.0.0.1:{port}{path}"
        finally:
            running.terminate()
            running.wait()


async def require_same_rows(client: Client) -> None:
    """Raises unless all forms write the same rows."""
    written = {}
    for form in FORMS:
        client.number = 0
        for name in names_of(client.forms[form]):
            if not name.startswith("search"):
                for _ in range(3):
                    await client.call(form, name)
        user = f"{client.user}-{form}"
        row = await client.connection.fetchrow(ROWS, user)
        written[form] = {
            table: text and text.replace(f"-{form}", "").replace(f"{form}-", "")
            for table, text in row.items()
        }
    first, *others = written.values()
    assert all(first.values()), first
    for form, other in zip(FORMS[1:], others, strict=True):
        for table, text in first.items():
            if form == "wrapped" or text != other[table]:
                assert text == other[table], f"{form} writes other {table}:\n{text}\n{other[table]}"


ROWS = """
WITH placed AS (
  SELECT m.*, m.position - min(m.position) OVER (PARTITION BY m.session_id) AS place
    FROM adkpg.memories m WHERE m.user_id = $1)
SELECT
  (SELECT json_agg(x ORDER BY x.session_id)::text FROM
    (SELECT session_id, revision, state, updated_at, memory_position IS NOT NULL AS remembers
       FROM adkpg.sessions WHERE user_id = $1) x) AS sessions,
  (SELECT json_agg(x ORDER BY x.session_id, x.seq)::text FROM
    (SELECT session_id, seq, event_id, timestamp, payload
       FROM adkpg.events WHERE user_id = $1) x) AS events,
  (SELECT json_agg(state)::text FROM adkpg.user_states WHERE user_id = $1) AS states,
  (SELECT json_agg(x ORDER BY x.session_id, x.place)::text FROM
    (SELECT place, memory_id, kind, session_id, event_id, author, timestamp, content, body,
            length, speech, custom_metadata, source, artifacts, topics, importance, expires_at
       FROM placed) x) AS memories,
  (SELECT json_agg(x ORDER BY x.memory_id, x.lexeme)::text FROM
    (SELECT p.memory_id, l.lexeme, l.frequency, l.date_frequency
       FROM adkpg.memory_lexemes l JOIN placed p USING (app_name, user_id, position)) x) AS words,
  (SELECT json_agg(x ORDER BY x.memory_id, x.task)::text FROM
    (SELECT p.memory_id, j.task, j.attempts
       FROM adkpg.memory_jobs j JOIN placed p USING (app_name, user_id, position)) x) AS jobs
"""


def names_of(calls: dict[str, Call]) -> list[str]:
    """The calls to measure, in the order of the table."""
    searches = [name for name in calls if name.startswith("search")]
    return [*(name for name in calls if name not in searches), INGEST_OF_10, *searches]


Figures = dict[tuple[str, str], tuple[float, float]]
"""By form and call: the median for one client in ms, and calls per second of eight."""


async def measure(clients: Sequence[Client], names: Sequence[str], calls: int) -> Figures:
    alone: dict[tuple[str, str], list[float]] = {}
    many: dict[tuple[str, str], list[float]] = {}
    first = clients[0]
    for number in range(calls // BLOCK + 1):  # the first block warms up
        for name in names:
            for form in first.forms:
                if form == "wrapped" and (name == INGEST_OF_10 or name.startswith("search")):
                    continue
                took = alone.setdefault((form, name), [])
                for _ in range(BLOCK):
                    start = time.perf_counter()
                    await first.call(form, name)
                    if number:
                        took.append(1000 * (time.perf_counter() - start))
                if number % 4 in (0, 1):  # the first warms up
                    start = time.perf_counter()
                    await asyncio.gather(*(_block(client, form, name) for client in clients))
                    each = (time.perf_counter() - start) / (BLOCK * len(clients))
                    if number:
                        many.setdefault((form, name), []).append(each)
    return {key: (statistics.median(alone[key]), 1 / statistics.mean(many[key])) for key in alone}


async def _block(client: Client, form: str, name: str) -> None:
    for _ in range(BLOCK):
        await client.call(form, name)


async def run(server_url: str, calls: int, poolers: Sequence[str]) -> None:
    async with own_database(server_url, "writes") as url:  # noqa: SIM117 - closed before
        async with Recording(url, pool_size=1, max_overflow=0) as database:
            await database.upgrade()
            connection = await asyncpg.connect(url)
            await connection.execute(Path(__file__).with_suffix(".sql").read_text("utf-8"))
            texts = await recorded(database)
            await connection.execute("VACUUM ANALYZE")
            wrapped = await wrap(connection, texts)
            forms = {"statement": texts, "wrapped": wrapped, "function": plain(texts, wrapped)}
            drafts = drafts_of_events([said(number) for number in range(10)], "")
            check = Client(connection, "checked", database, forms, drafts)
            await require_same_rows(check)
            await connection.execute(SECURITY)
            try:
                await measure_ways(url, calls, poolers, check, connection)
            finally:
                await connection.execute(f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}")
                await connection.close()


async def measure_ways(
    url: str, calls: int, poolers: Sequence[str], model: Client, owner: Any
) -> None:
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(Network(url, delay_ms=1.0))
        ways = [
            Way("direct, prepared", url, True),
            Way("direct, prepared, 1 ms away", network.url, True),
            Way("direct, not prepared", url, False),
        ]
        for program in poolers:
            version, through = stack.enter_context(pooled(program, url))
            if version >= "1.21":
                ways.append(Way(f"PgBouncer {version}, prepared", through, True))
            ways.append(Way(f"PgBouncer {version}, not prepared", through, False))
        names = names_of(model.forms["statement"])
        for way in ways:
            async with clients_of(way, model) as clients:
                show(way.name, names, await measure(clients, names, calls))
        await owner.execute(ENABLE)
        append = model.forms["statement"]["append"]
        inside = Call(APPEND.replace("append_event", "scoped_append"), APPEND_NAMES, {})
        values = model.forms["function"]["append"].values
        scoped = {
            "statement": model.forms["statement"] | {"append": append},
            "function": {"append": replace(inside, values=values)},
        }
        for way in ways:
            as_role = way.url.replace("postgresql://postgres@", f"postgresql://{ROLE}@")
            other = replace(model, forms=scoped, scoped=frozenset({"statement"}))
            async with clients_of(replace(way, url=as_role), other) as clients:
                found = await measure(clients, ["append"], calls)
                show(f"row-level security, {way.name}", ["append"], found)


@asynccontextmanager
async def clients_of(way: Way, model: Client) -> AsyncIterator[list[Client]]:
    connections = [await way.connect() for _ in range(CLIENTS)]
    try:
        yield [
            replace(model, connection=each, user=f"{way.name}{len(model.forms)}{n}", sessions={})
            for n, each in enumerate(connections)
        ]
    finally:
        for each in connections:
            await each.close()


SECURITY = f"""

CREATE ROLE {ROLE} LOGIN;
GRANT USAGE ON SCHEMA adkpg, tried TO {ROLE};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA adkpg TO {ROLE};
CREATE FUNCTION tried.scoped_append(
  text, text, text, text, timestamptz, text, text, text, text, text, bigint, text, bigint, text,
  text)
RETURNS tried.appended LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('adkpg.user_id', $2, true);
  RETURN tried.append_event($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
    $14, $15);
END $$;
"""
ENABLE = """
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['sessions', 'events', 'user_states', 'memories', 'memory_lexemes'] LOOP
    EXECUTE format('ALTER TABLE adkpg.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY own ON adkpg.%I USING '
                   '(user_id = current_setting(''adkpg.user_id'', true))', t);
  END LOOP;
END $$
"""


def show(title: str, names: Sequence[str], found: Figures) -> None:
    table = Table(title, *(f"{form}" for form in FORMS), title_justify="left")
    for name in names:
        cells = []
        for form in FORMS:
            alone, many = found.get((form, name), (0.0, 0.0))
            cells.append(f"{alone:.2f} ms, {many:,.0f}/s" if alone else "")
        table.add_row(name, *cells)
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=240, help="of one client, each kind and form")
    parser.add_argument("--pooler", action="append", default=[], help="a PgBouncer program")
    arguments = parser.parse_args()
    with chosen_server() as url:
        asyncio.run(run(url, arguments.calls, arguments.pooler))


if __name__ == "__main__":
    main()
