"""Exporting: what is stored of an app, a person or a session, as lines of JSON."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from importlib.metadata import version

from adkpg.artifacts.store import ObjectStore
from adkpg.database import Database
from adkpg.errors import InvalidInput
from adkpg.keys import require_storable
from adkpg.telemetry.calls import on, traced_function
from adkpg.tooling.transfer import lines
from adkpg.tooling.transfer.reading.stored import Stored


@traced_function(on(""))
async def export(
    database: Database,
    *,
    app_name: str,
    user_id: str | None = None,
    session_id: str | None = None,
    objects: bool = True,
    progress: Callable[[int], None] | None = None,
) -> AsyncGenerator[str, None]:
    """Yields an export line by line, in bounded memory; `import_from` reads it back.

    First come the app's settings and state, then users' states, marks of deleted memories,
    memories, saved questions, files, and sessions, each followed by its events. Each session is as
    of one moment. Postgres writes the lines, so each payload is spelled as it is stored. Vectors
    and words are derived and left out.

    Args:
      database: Where.
      app_name: The app.
      user_id: One user alone; None is all users, and what the app knows for all of them.
      session_id: One session of the user alone, and what was remembered of it.
      objects: Files whose bytes are in the object store come with them; False names the objects
        alone, for a database that takes the store over.
      progress: Is told how many lines there are so far.

    Yields:
      Lines without their line breaks.

    Raises:
      InvalidInput: A session is named without its user, or an id cannot be stored.
      ConfigurationError: There are files in an object store, and the settings name none.
      ArtifactGone: A file's bytes are not in the object store any more.
      ArtifactStoreError: The object store refused one.
      ScopeMissing: Row-level security is on, and the context's scope is one user's, or none.
      DatabaseError: The server refused a statement.
    """
    if session_id is not None and user_id is None:
        raise InvalidInput("A session's id is not enough; give the user's id, too.")
    require_storable(app_name=app_name, user_id=user_id, session_id=session_id)
    if user_id is None:
        database.run.require_every_scope()
    writer = f"adkpg {version('adkpg')}"
    yield lines.header(app_name=app_name, user_id=user_id, session_id=session_id, writer=writer)
    stored = Stored(
        database,
        app_name=app_name,
        user_id=user_id,
        session_id=session_id,
        objects=ObjectStore.of(database.settings) if objects else None,
        named=not objects,
    )
    counts: Counter[str] = Counter()
    async for kind, line in stored.everything():
        counts[kind] += 1
        yield line
        if progress is not None:
            progress(counts.total())
    yield lines.end(counts)
