"""A file that is imported chooses no object: neither another's nor one outside of the store."""

import base64
import json
import math
import uuid
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from adkpg import Database, DatabaseArtifactService, DatabaseSessionService
from adkpg.artifacts import sweep_objects
from adkpg.artifacts.records import CHUNK_BYTES
from adkpg.artifacts.store import location_of
from adkpg.erasure import forget
from adkpg.keys import APP_WIDE
from adkpg.tooling.transfer import export, import_from
from tests.fakes.life import event
from tests.fakes.moves import imported
from tests.fakes.objects import LARGE, blob, objects, settings_of

VICTIM: dict[str, Any] = {"app_name": "app", "user_id": "ana", "filename": "user:diary"}
MALLORY: dict[str, Any] = {"app_name": "app", "user_id": "mallory"}
NOW = "2026-01-01T00:00:00+00:00"
ID = "6d1a3f0e-7a5e-4a55-9d60-0d3d2c6f3f11"
OWN = location_of(**MALLORY, artifact_id=ID)


def line(**fields: Any) -> dict[str, Any]:
    return {
        "type": "artifact",
        **MALLORY,
        "session_id": None,
        "name": "user:n",
        "version": 0,
        "artifact_id": ID,
        "part": {"inline_data": {"mime_type": "text/plain"}},
        "mime_type": "text/plain",
        "custom_metadata": {},
        "size": 9,
        "location": None,
        "created_at": NOW,
        **fields,
    }


def chunk(data: bytes, **fields: Any) -> dict[str, Any]:
    text = base64.b64encode(data).decode()
    return {
        "type": "artifact_chunk",
        **MALLORY,
        "artifact_id": ID,
        "chunk": 0,
        "data": text,
    } | fields


def file_of(folder: Path, *lines: dict[str, Any]) -> Path:
    head = {"type": "export", "format": "adkpg", "version": 1, "writer": "x", "app_name": "app"}
    path = folder / "hostile.jsonl"
    written = (head, *lines, {"type": "end", "records": {}})
    path.write_text("".join(json.dumps(each) + "\n" for each in written))
    return path


def locations(victims: str) -> dict[str, Any]:
    """What a line may give as its location, by what it tries."""
    day, _, name = victims.partition("/")
    mine = OWN.partition("/")[2]
    return {
        "beside the store": "../server.env",
        "absolute": "/etc/hostname",
        "within a day": "20260101/../../server.env",
        "the claim": "adkpg-claim",
        "the claim within a day": f"{day}/../adkpg-claim",
        "another's": victims,
        "another's, of another day": f"20200101/{name}",
        "another's, twice": f"{day}//{name}",
        "another's, with a dot": f"./{victims}",
        "another's, by way of the own": f"{day}/{mine}/../{name}",
        "another's, with the own before": f"{OWN}/../../{victims}",
        "another's, in capitals": victims.upper(),
        "the id itself": f"{day}/{ID}",
        "a folder": day,
        "nothing": "",
        "dots": f"{day}/..",
        "backslashes": f"{day}\\..\\..\\server.env",
        "escaped": "%2e%2e/server.env",
        "a URL": "file:///etc/hostname",
        "a chain": f"simplecache::{victims}",
        "digits of elsewhere": f"２０２６０１０１/{mine}",  # noqa: RUF001 - as it is meant
        "the own and a line": f"{OWN}\n",
        "the own and NUL": f"{OWN}\0",
        "the own in capitals": OWN.upper(),
        "the own of no day": f"2026010/{mine}",
        "the own, deeper": f"{day}/{day}/{mine}",
        "a number": 7,
        "true": True,
        "a list": [OWN],
        "an object": {"path": OWN},
    }


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> Any:
    settings = settings_of(tmp_path / "store")
    async with Database(database_url, settings=settings) as opened:
        yield opened


async def test_no_location_of_a_line_names_what_is_not_its_own(
    database: Database, tmp_path: Path
) -> None:
    files = DatabaseArtifactService(database)
    await files.save_artifact(**VICTIM, artifact=blob(LARGE))
    (tmp_path / "server.env").write_text("PASSWORD=x")
    store = tmp_path / "store"
    (theirs,) = objects(store)
    claim = (store / "adkpg-claim").read_text()
    tried = locations(str(theirs.relative_to(store)))
    lines = [
        line(name=f"user:{what}", artifact_id=artifact_id, location=location)
        for what, location in tried.items()
        for artifact_id in (ID, theirs.name[:8] + ID[8:], str(uuid.uuid4()))
    ]

    report = await import_from(database, source=file_of(tmp_path, *lines))

    assert not report.complete
    assert report.unread.count == len(lines)
    assert await files.list_artifact_keys(**MALLORY) == []
    for what in tried:
        assert await files.load_artifact(**MALLORY, filename=f"user:{what}") is None
        await files.delete_artifact(**MALLORY, filename=f"user:{what}")
    await forget(database, **MALLORY)
    await sweep_objects(database)
    assert (tmp_path / "server.env").read_text() == "PASSWORD=x"
    assert (store / "adkpg-claim").read_text() == claim
    assert await files.load_artifact(**VICTIM) == blob(LARGE)


async def test_an_id_that_another_has_names_an_object_of_the_own(
    database: Database, tmp_path: Path
) -> None:
    files = DatabaseArtifactService(database)
    await files.save_artifact(**VICTIM, artifact=blob(LARGE))
    named = [each async for each in export(database, app_name="app", objects=False)]
    theirs = next(json.loads(each) for each in named if '"artifact"' in each)
    id_ = theirs["artifact_id"]
    for location, unread in (
        (theirs["location"], 1),
        (location_of(**MALLORY, artifact_id=id_), 0),
    ):
        hostile = file_of(tmp_path, line(artifact_id=id_, location=location))
        report = await import_from(database, source=hostile)
        assert report.unread.count == unread
    await files.delete_artifact(**MALLORY, filename="user:n")
    assert await files.load_artifact(**VICTIM) == blob(LARGE)


async def test_no_line_adds_bytes_to_a_file_that_is_stored(
    database: Database, tmp_path: Path, connection: Any
) -> None:
    place = {**MALLORY, "filename": "user:kept"}
    files = DatabaseArtifactService(database)
    await files.save_artifact(**place, artifact=types.Part(text="as it was"))
    id_ = str(await connection.fetchval("SELECT artifact_id FROM artifacts"))
    whole = line(artifact_id=id_, name="user:kept", size=CHUNK_BYTES + 1, part={"text": ""})
    other = line(artifact_id=id_, name="user:other", size=9)
    of_ana = {"user_id": "ana", "artifact_id": id_}
    lines = (
        (chunk(b"x" * 9, artifact_id=id_),),
        (whole, chunk(b"x", artifact_id=id_, chunk=1)),
        (other, chunk(b"x" * 9, artifact_id=id_)),
        (line(), chunk(b"x" * 9, artifact_id=id_)),
        (line(**of_ana), chunk(b"x" * 9, artifact_id=id_)),
    )
    for each in lines:
        report = await import_from(database, source=file_of(tmp_path, *each), app_name="app")
        assert not report.complete, each
        assert await files.load_artifact(**place) == types.Part(text="as it was")
    assert await connection.fetchval("SELECT max(chunk) FROM artifact_chunks") == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"artifact_id": 5},
        {"artifact_id": "adkpg-claim"},
        {"artifact_id": None},
        {"version": -1},
        {"version": 2**31 - 1},
        {"version": 1.5},
        {"version": "0"},
        {"size": -1},
        {"size": 1e300},
        {"session_id": 7},
        {"session_id": ["s"]},
        {"session_id": "s"},
        {"session_id": "../s", "name": "n"},
        {"session_id": None, "name": "n"},
        {"name": 7},
        {"name": "user:\0"},
        {"user_id": None},
        {"user_id": "\x01app"},
        {"user_id": ".."},
        {"app_name": "a/../b"},
        {"mime_type": 7},
        {"part": []},
        {"part": {"text": 7}},
        {"custom_metadata": None},
        {"created_at": 7},
        {"created_at": "yesterday"},
    ],
    ids=str,
)
async def test_a_line_that_no_save_wrote_is_listed_and_those_beside_it_are_stored(
    database: Database, tmp_path: Path, fields: dict[str, Any]
) -> None:
    others = {"name": "user:other", "artifact_id": str(uuid.uuid4())}
    hostile = file_of(
        tmp_path, line(**fields), line(**others), chunk(b"x" * 9, artifact_id=others["artifact_id"])
    )
    report = await import_from(database, source=hostile)
    assert report.unread.count == 1
    files = DatabaseArtifactService(database)
    assert await files.list_artifact_keys(**MALLORY) == ["user:other"]
    assert await files.save_artifact(**MALLORY, filename="user:n", artifact=blob(b"y")) == 0


async def test_an_export_of_names_alone_is_imported_beside_its_store(
    database: Database, target_url: str, tmp_path: Path
) -> None:
    await DatabaseSessionService(database).create_session(**MALLORY, session_id="s")
    files = DatabaseArtifactService(database)
    await files.save_artifact(**MALLORY, session_id="s", filename="ünï 𝄞", artifact=blob(LARGE))
    path = tmp_path / "names.jsonl"
    path.write_text(
        "\n".join([each async for each in export(database, app_name="app", objects=False)])
    )
    async with Database(target_url, settings=database.settings) as target:
        await imported(target, path)
        loaded = DatabaseArtifactService(target).load_artifact(
            **MALLORY, session_id="s", filename="ünï 𝄞"
        )
        assert await loaded == blob(LARGE)


MEMORY: dict[str, Any] = {
    "type": "memory",
    **MALLORY,
    "memory_id": "m",
    "kind": "note",
    "timestamp": NOW,
    "content": {"parts": [{"text": "x"}]},
    "body": "x",
    "importance": 0.5,
    "created_at": NOW,
    "position": 5,
    "digest": "d" * 32,
}
SESSION: dict[str, Any] = {"type": "session", **MALLORY, "session_id": "s", "state": {}}


@pytest.mark.parametrize(
    ("of", "fields"),
    [
        *(
            (MEMORY, {name: value})
            for name in ("session_id", "event_id", "invocation_id", "author", "source", "user_id")
            for value in (7, ["x"])
        ),
        (MEMORY, {"superseded_by": {}}),
        (MEMORY, {"user_id": APP_WIDE, "position": -5}),
        (MEMORY, {"position": 2**63 - 1}),
        (MEMORY, {"position": -(2**63)}),
        (MEMORY, {"position": 1.5}),
        (MEMORY, {"position": 10**30}),
        (SESSION, {"ttl_s": math.inf}),
        (SESSION, {"ttl_s": 1e300}),
        (SESSION, {"ttl_s": -5}),
        (SESSION, {"revision": 2**63 - 1}),
        (SESSION, {"session_id": 7}),
    ],
    ids=lambda each: str(each)[:40],
)
async def test_a_key_or_place_that_is_none_is_listed_and_stops_nothing(
    database: Database, tmp_path: Path, of: dict[str, Any], fields: dict[str, Any]
) -> None:
    other = {"memory_id": "other", "position": 9} if of is MEMORY else {"session_id": "other"}
    report = await import_from(
        database, source=file_of(tmp_path, {**of, **fields}, {**of, **other})
    )
    assert report.unread.count == 1
    assert report.memories_written + report.created == 1
    async with DatabaseSessionService(database, remember=True) as sessions:
        session = await sessions.create_session(**MALLORY, session_id="next")
        await sessions.append_event(session, event("said afterwards", "e"))
