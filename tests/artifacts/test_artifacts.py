"""Files on Postgres: what ADK's services leave open, how much travels, whose they are."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from google.adk.artifacts.artifact_util import get_artifact_uri
from google.genai import types

import adkpg
from adkpg import Database, DatabaseArtifactService, DatabaseSessionService, Settings
from adkpg.errors import ArtifactGone, DiskFull, InvalidArtifact
from tests.fakes.citus import home_of
from tests.fakes.proxy import Proxy

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
PLACE: dict[str, Any] = {**ANA, "session_id": "s", "filename": "a.bin"}
ROWS = "SELECT (SELECT count(*) FROM artifacts) + (SELECT count(*) FROM artifact_chunks)"


def blob(data: bytes, mime_type: str = "image/png") -> types.Part:
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type))


def bytes_of(size: int) -> bytes:
    return (b"%07d\n" * (size // 8 + 1) % tuple(range(size // 8 + 1)))[:size]


async def loaded(files: DatabaseArtifactService, **place: Any) -> bytes:
    part = await files.load_artifact(**place)
    assert part is not None
    assert part.inline_data is not None
    assert part.inline_data.data is not None
    return part.inline_data.data


@pytest.mark.prepared
async def test_a_file_of_a_megabyte_is_one_round_trip(proxy: Proxy) -> None:
    data = bytes_of(1_048_576)
    async with DatabaseArtifactService(proxy.url) as files:
        for _ in range(2):
            before = proxy.round_trips
            version = await files.save_artifact(**PLACE, artifact=blob(data))
            saved = proxy.round_trips - before
            assert await loaded(files, **PLACE, version=version) == data
            both = proxy.round_trips - before
        assert (saved, both) == (1, 2)


@pytest.mark.parametrize("size", [0, 1, 262_144, 262_145, 4_194_304, 4_194_305, 9_000_001])
async def test_every_size_comes_back(files: DatabaseArtifactService, size: int) -> None:
    data = bytes_of(size)
    await files.save_artifact(**PLACE, artifact=blob(data))
    assert await loaded(files, **PLACE) == data


async def test_texts_come_back_as_they_were(files: DatabaseArtifactService) -> None:
    for text in ("", "ünï", "a\x00b", "\ud800 alone", "x" * 600_000):
        await files.save_artifact(**PLACE, artifact=types.Part(text=text))
        whole = types.Part(text=text.replace("\ud800", "\ufffd"))
        assert await files.load_artifact(**PLACE) == whole


async def test_parts_may_be_given_as_json(files: DatabaseArtifactService) -> None:
    await files.save_artifact(
        **PLACE, artifact={"inlineData": {"mimeType": "image/png", "data": "AAEC"}}
    )
    assert await loaded(files, **PLACE) == b"\x00\x01\x02"
    with pytest.raises(InvalidArtifact, match=r"not a types\.Part"):
        await files.save_artifact(**PLACE, artifact={"inlineData": 7})


async def test_a_stream_is_saved_and_read_in_parts(files: DatabaseArtifactService) -> None:
    data = bytes_of(9_000_001)

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 100_003):
            yield data[start : start + 100_003]

    version = await files.save_stream(
        **PLACE, data=parts(), mime_type="video/mp4", custom_metadata={"k": 1}
    )
    opened = await files.open_artifact(**PLACE, version=version)
    assert opened is not None
    assert opened.size == len(data)
    assert opened.version.mime_type == "video/mp4"
    assert opened.version.custom_metadata == {"k": 1}
    read = [part async for part in opened]
    assert b"".join(read) == data
    assert max(map(len, read)) == 262_144
    assert await loaded(files, **PLACE) == data
    assert await files.open_artifact(**PLACE, version=7) is None


async def test_a_stream_that_fails_saves_nothing(
    files: DatabaseArtifactService, connection: asyncpg.Connection
) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"x" * 5_000_000
        raise OSError("the upload ended")

    with pytest.raises(OSError, match="the upload ended"):
        await files.save_stream(**PLACE, data=parts(), mime_type="video/mp4")
    assert await connection.fetchval(ROWS) == 0


async def test_a_file_that_is_deleted_while_it_is_read_is_an_error(
    files: DatabaseArtifactService,
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(bytes_of(9_000_001)))
    opened = await files.open_artifact(**PLACE)
    assert opened is not None
    await files.delete_artifact(**PLACE)
    await files.save_artifact(**PLACE, artifact=blob(bytes(9_000_001)))
    with pytest.raises(ArtifactGone, match="load it again"):
        _ = [part async for part in opened]


async def test_what_is_too_large_is_refused(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async def parts() -> AsyncIterator[bytes]:
        while True:
            yield bytes(300_000)

    async with DatabaseArtifactService(database_url, settings=Settings(max_artifact_mb=1)) as files:
        for save in (
            files.save_artifact(**PLACE, artifact=blob(bytes(1_000_001))),
            files.save_artifact(**PLACE, artifact=types.Part(text="é" * 500_001)),
            files.save_stream(**PLACE, data=parts(), mime_type="image/png"),
        ):
            with pytest.raises(InvalidArtifact, match="ADKPG_MAX_ARTIFACT_MB=1 allows 1,000,000"):
                await save
    assert await connection.fetchval(ROWS) == 0


async def test_a_file_of_no_session_is_the_users_own(files: DatabaseArtifactService) -> None:
    """As ADK's interface says, and its file service does."""
    place = {**ANA, "filename": "a.txt"}
    assert await files.save_artifact(**place, artifact=types.Part(text="mine")) == 0
    for again in (place, {**ANA, "filename": "user:a.txt", "session_id": "any"}):
        assert await files.load_artifact(**again) == types.Part(text="mine")
    assert await files.list_artifact_keys(**ANA) == ["user:a.txt"]
    assert await files.list_artifact_keys(**ANA, session_id="s") == ["user:a.txt"]


async def test_a_session_may_be_named_user(files: DatabaseArtifactService) -> None:
    await files.save_artifact(**{**PLACE, "session_id": "user"}, artifact=types.Part(text="of it"))
    assert await files.list_artifact_keys(**ANA) == []
    assert await files.list_artifact_keys(**ANA, session_id="user") == ["a.bin"]
    assert await files.load_artifact(**{**PLACE, "session_id": None}) is None
    (told,) = await files.list_artifact_versions(**{**PLACE, "session_id": "user"})
    assert (
        told.canonical_uri == "adkpg://apps/app/users/ana/sessions/user/artifacts/a.bin/versions/0"
    )


async def test_canonical_uris_name_one_file(files: DatabaseArtifactService) -> None:
    places = [
        {**ANA, "session_id": "s", "filename": "user:dir/a b.txt"},
        {**ANA, "session_id": "s/artifacts", "filename": "x"} | {"session_id": "s%2F"},
        {**ANA, "session_id": "s", "filename": "f/versions/0"},
    ]
    uris = []
    for place in places:
        await files.save_artifact(**place, artifact=types.Part(text="x"))
        told = await files.get_artifact_version(**place)
        assert told is not None
        uris.append(told.canonical_uri)
    assert uris == [
        "adkpg://apps/app/users/ana/artifacts/user:dir/a%20b.txt/versions/0",
        "adkpg://apps/app/users/ana/sessions/s%252F/artifacts/x/versions/0",
        "adkpg://apps/app/users/ana/sessions/s/artifacts/f/versions/0/versions/0",
    ]


async def test_references_end_after_five(files: DatabaseArtifactService) -> None:
    def refer(to: str) -> types.Part:
        uri = get_artifact_uri("app", "ana", to, 0, session_id="s")
        return types.Part(file_data=types.FileData(file_uri=uri))

    await files.save_artifact(**{**PLACE, "filename": "f0"}, artifact=types.Part(text="end"))
    for number in range(1, 7):
        await files.save_artifact(
            **{**PLACE, "filename": f"f{number}"}, artifact=refer(f"f{number - 1}")
        )
    assert await files.load_artifact(**{**PLACE, "filename": "f5"}) == types.Part(text="end")
    with pytest.raises(InvalidArtifact, match="recursion depth"):
        await files.load_artifact(**{**PLACE, "filename": "f6"})


async def test_what_a_rewind_saves_loads_as_none_and_stays_a_version(
    files: DatabaseArtifactService,
) -> None:
    await files.save_artifact(**PLACE, artifact=blob(b"x"))
    await files.save_artifact(**PLACE, artifact=blob(b"", "application/octet-stream"))
    assert await files.load_artifact(**PLACE) is None
    assert await files.open_artifact(**PLACE) is None
    assert await files.list_versions(**PLACE) == [0, 1]
    assert await files.list_artifact_keys(**ANA, session_id="s") == ["a.bin"]
    assert await loaded(files, **PLACE, version=0) == b"x"


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"filename": "x" * 600}, "600 bytes"),
        ({"filename": "a\x00"}, "holds NUL"),
        ({"filename": "\ud800"}, "lone surrogate"),
        ({"app_name": "../x"}, "traversal"),
        ({"session_id": "a/users/b"}, "reserved"),
        ({"artifact": types.Part(inline_data=types.Blob(mime_type="a/b"))}, "has no data"),
        ({"artifact": types.Part()}, "of this kind cannot be saved"),
        ({"custom_metadata": {"a": {1: object()}, 2: 3}}, "custom_metadata"),
    ],
)
async def test_what_cannot_be_stored_is_refused(
    files: DatabaseArtifactService,
    connection: asyncpg.Connection,
    wrong: dict[str, Any],
    match: str,
) -> None:
    with pytest.raises(InvalidArtifact, match=match):
        await files.save_artifact(**{**PLACE, "artifact": blob(b"x"), **wrong})
    assert await connection.fetchval(ROWS) == 0


async def test_pages_name_all_files_of_a_user(files: DatabaseArtifactService) -> None:
    for session_id, name in (("s", "b"), ("t", "a"), ("s", "user:c"), ("s", "b"), ("unknown", "z")):
        await files.save_artifact(
            **ANA, session_id=session_id, filename=name, artifact=types.Part(text="four")
        )
    await files.save_artifact(
        app_name="app", user_id="bob", filename="b", artifact=types.Part(text="no")
    )
    seen, cursor = [], None
    while True:
        page = await files.list_artifacts_page(**ANA, limit=2, cursor=cursor)
        seen += [(a.session_id, a.filename, a.version.version, a.size) for a in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert seen == [
        (None, "user:c", 0, 4),
        ("s", "b", 0, 4),
        ("s", "b", 1, 4),
        ("t", "a", 0, 4),
        ("unknown", "z", 0, 4),
    ]


async def test_files_go_with_their_session_and_their_person(
    database: Database, files: DatabaseArtifactService, connection: asyncpg.Connection
) -> None:
    sessions = DatabaseSessionService(database)
    for session_id in ("s", "t", "u"):
        await sessions.create_session(**ANA, session_id=session_id)
        await files.save_artifact(
            **{**PLACE, "session_id": session_id}, artifact=blob(bytes_of(700_000))
        )
    await files.save_artifact(**ANA, filename="user:a", artifact=types.Part(text="mine"))
    await files.save_artifact(
        **ANA, session_id="elsewhere", filename="b", artifact=types.Part(text="x")
    )
    await sessions.delete_session(**ANA, session_id="s")
    await sessions.delete_session(**ANA, session_id="t", forget=True)
    assert await files.list_artifact_keys(**ANA, session_id="s") == ["user:a"]
    assert await files.list_artifact_keys(**ANA, session_id="t") == ["user:a"]
    assert await connection.fetchval(ROWS) == 3 + 3 + 2
    erased = await adkpg.erasure.forget(database, **ANA)
    assert erased.rows["artifacts"] == 3
    assert await connection.fetchval(ROWS) == 0


@pytest.mark.race
async def test_every_save_gets_a_version_of_its_own(database: Database) -> None:
    services = [DatabaseArtifactService(database) for _ in range(4)]
    small = [
        each.save_artifact(**PLACE, artifact=types.Part(text=str(n)))
        for n, each in enumerate(services * 4)
    ]
    large = [each.save_artifact(**PLACE, artifact=blob(bytes(4_300_000))) for each in services]
    got = await asyncio.gather(*small, *large)
    assert sorted(got) == list(range(20))
    assert await services[0].list_versions(**PLACE) == list(range(20))
    for number in range(16):
        part = await services[1].load_artifact(**PLACE, version=got[number])
        assert part == types.Part(text=str(number))


@pytest.mark.race
async def test_a_save_that_a_deletion_waits_for_goes_with_its_session(
    database: Database,
    files: DatabaseArtifactService,
    connection: asyncpg.Connection,
    database_url: str,
) -> None:
    """The deleting statement does not see what it waited for; its trigger does."""
    sessions = DatabaseSessionService(database)
    home = await home_of(database_url, ANA["user_id"])
    watching = await asyncpg.connect(home)
    for delete in (
        lambda: sessions.delete_session(**ANA, session_id="s"),
        lambda: adkpg.erasure.forget(database, **ANA),
    ):
        await sessions.create_session(**ANA, session_id="s")
        saving = await asyncpg.connect(home)
        await saving.execute("BEGIN")
        await saving.execute(
            "SELECT FROM adkpg.sessions WHERE app_name = 'app' AND user_id = 'ana'"
            " AND session_id = 's' FOR KEY SHARE"
        )
        deleting = asyncio.create_task(delete())
        while not await watching.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        ):
            await asyncio.sleep(0)
        await saving.execute(
            "INSERT INTO adkpg.artifacts (app_name, user_id, session_id, name, version,"
            " artifact_id, part, custom_metadata, size) VALUES ('app', 'ana', 's', 'n', 0,"
            " gen_random_uuid(), '{}', '{}', 0)"
        )
        await saving.execute("COMMIT")
        await saving.close()
        await deleting
        assert await connection.fetchval(ROWS) == 0
    await watching.close()


@pytest.mark.race
@pytest.mark.prepared
@pytest.mark.parametrize("round_trip", range(1, 8))
async def test_a_save_during_a_forgetting_is_whole_or_nothing(
    proxy: Proxy, database: Database, connection: asyncpg.Connection, round_trip: int
) -> None:
    """A file of a session that is not stored; what was saved before is erased."""
    async with DatabaseArtifactService(proxy.url) as files:
        await files.list_versions(**PLACE)
        proxy.hold(round_trip, "question")
        saving = asyncio.create_task(files.save_artifact(**PLACE, artifact=blob(bytes(9_000_000))))
        held = asyncio.create_task(proxy.held.wait())
        await asyncio.wait({held, saving}, return_when=asyncio.FIRST_COMPLETED)
        held.cancel()
        late = saving.done()  # it has fewer round trips on a cluster
        await adkpg.erasure.forget(database, **ANA)
        proxy.release()
        (saved,) = await asyncio.gather(saving, return_exceptions=True)
    assert saved == 0 or isinstance(saved, ArtifactGone)
    assert await connection.fetchval(ROWS) == (1 + 35 if saved == 0 and not late else 0)


@pytest.mark.fault
@pytest.mark.prepared
async def test_a_lost_answer_saves_one_version(proxy: Proxy) -> None:
    async with DatabaseArtifactService(proxy.url) as files:
        for size in (10, 9_000_000):
            await files.save_artifact(**{**PLACE, "filename": "warm"}, artifact=blob(bytes(size)))
            proxy.lose_answers = 1
            name = f"{size}"
            assert (
                await files.save_artifact(**{**PLACE, "filename": name}, artifact=blob(bytes(size)))
                == 0
            )
            assert await files.list_versions(**{**PLACE, "filename": name}) == [0]
            assert len(await loaded(files, **{**PLACE, "filename": name})) == size


@pytest.mark.fault
@pytest.mark.prepared
@pytest.mark.parametrize("round_trip", [1, 2, 3, 4])
async def test_a_cancelled_save_leaves_all_or_nothing(
    proxy: Proxy, connection: asyncpg.Connection, round_trip: int
) -> None:
    async with DatabaseArtifactService(proxy.url) as files:
        await files.save_artifact(**{**PLACE, "filename": "warm"}, artifact=blob(bytes(9_000_000)))
        before = await connection.fetchval(ROWS)
        proxy.hold(round_trip, "answer")
        saving = asyncio.create_task(files.save_artifact(**PLACE, artifact=blob(bytes(9_000_000))))
        await proxy.held.wait()
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        proxy.release()
        assert await files.list_versions(**PLACE) == []
        assert await connection.fetchval(ROWS) == before


async def test_only_the_users_own_are_seen(files: DatabaseArtifactService) -> None:
    await files.save_artifact(**PLACE, artifact=types.Part(text="of ana"))
    other = {**PLACE, "user_id": "bob"}
    assert await files.load_artifact(**other) is None
    assert await files.list_artifact_keys(app_name="app", user_id="bob", session_id="s") == []
    await files.delete_artifact(**other)
    assert await files.load_artifact(**PLACE) == types.Part(text="of ana")
    stolen = types.Part(
        file_data=types.FileData(file_uri=get_artifact_uri("app", "ana", "a.bin", 0, "s"))
    )
    with pytest.raises(InvalidArtifact, match="same app and user"):
        await files.save_artifact(**other, artifact=stolen)


async def test_a_stream_that_the_temporary_folder_has_no_room_for_is_an_error_of_ours(
    files: DatabaseArtifactService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield bytes(1_000_000)

    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/none")
    with pytest.raises(DiskFull, match="TMPDIR"):
        await files.save_stream(**PLACE, data=parts(), mime_type="a/b")
    monkeypatch.undo()
    assert (
        await files.list_artifact_keys(app_name=PLACE["app_name"], user_id=PLACE["user_id"]) == []
    )
