"""What a row names is read and removed only if it is the row's own object, however it got there."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adkpg import Database, DatabaseArtifactService
from adkpg.artifacts import SweptObjects, sweep_objects
from adkpg.artifacts.store import ObjectStore, is_location_of, is_object, location_of
from adkpg.erasure import forget
from adkpg.errors import ArtifactStoreError
from tests.fakes.objects import LARGE, blob, objects, settings_of

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana", "filename": "user:diary"}
MALLORY: dict[str, Any] = {"app_name": "app", "user_id": "mallory", "filename": "user:n"}
SCOPE: dict[str, Any] = {"app_name": "app", "user_id": "mallory"}

texts = st.text() | st.lists(
    st.sampled_from(["..", ".", "/", "\\", "20260101", "adkpg-claim", "a" * 64, "\0", "\n", "%2e"])
).map("".join)


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(database_url, settings=settings_of(tmp_path / "store")) as opened:
        yield opened


@pytest.mark.property
@given(text=texts)
@example("adkpg-claim")
@example("20260101/../adkpg-claim")
@example("20260101/..")
def test_the_store_takes_nothing_but_objects_of_a_day(text: str) -> None:
    store = ObjectStore("file:///folder")
    try:
        path = Path(store._path(text))
    except ArtifactStoreError:
        assert not is_object(text)
        return
    assert path.parent.parent == Path("/folder")
    assert ".." not in path.parts
    assert path.parent.name.isdecimal()


@pytest.mark.property
@given(app=st.text(max_size=9), user=st.text(max_size=9), other=st.text(max_size=9))
@example("a", "bc", "ab")
@example("1:a", "b", "1:ab")
def test_a_location_is_one_versions_own(app: str, user: str, other: str) -> None:
    row = {"app_name": app, "user_id": user, "artifact_id": "6d1a3f0e-7a5e-4a55-9d60-0d3d2c6f3f11"}
    location = location_of(**row)
    assert is_object(location)
    assert is_location_of(location, **row)
    assert not any(part and part in location[9:] for part in (app, user) if len(part) > 4)
    for changed in ({"app_name": app + other + "x"}, {"user_id": other + user + "x"}):
        assert not is_location_of(location, **{**row, **changed})
    for moved in ((other, app + user), (app + user, ""), ("", app + user)):
        if moved != (app, user):
            others = {**row, "app_name": moved[0], "user_id": moved[1]}
            assert not is_location_of(location, **others)


async def test_the_schema_refuses_a_location_that_is_not_the_rows_own(
    database: Database, connection: asyncpg.Connection
) -> None:
    files = DatabaseArtifactService(database)
    for app, user in (("app", "ana"), ("11:ä", "𝄞"), ("app", "c" * 200)):
        place: dict[str, Any] = {"app_name": app, "user_id": user, "filename": "user:f"}
        await files.save_artifact(**place, artifact=blob(LARGE))  # ours is what it takes
    location = await connection.fetchval("SELECT location FROM artifacts WHERE user_id = 'ana'")
    for other in ("../x", "", f"{location}x", location.upper(), f"20200101/{'a' * 64}"):
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute(
                "UPDATE artifacts SET location = $1 WHERE user_id = 'ana'", other
            )
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(
            "UPDATE artifacts SET location = $1 WHERE user_id <> 'ana'", location
        )


@pytest.mark.parametrize("erased_by", ["delete_artifact", "forget"])
@pytest.mark.parametrize("named", ["outside", "claim", "another's", "nothing"])
async def test_a_row_that_is_stored_already_reads_and_removes_nothing(
    database: Database,
    connection: asyncpg.Connection,
    tmp_path: Path,
    named: str,
    erased_by: str,
) -> None:
    files = DatabaseArtifactService(database)
    await files.save_artifact(**ANA, artifact=blob(LARGE))
    await files.save_artifact(**MALLORY, artifact=blob(LARGE))
    (tmp_path / "server.env").write_bytes(LARGE)
    theirs = await connection.fetchval("SELECT location FROM artifacts WHERE user_id = 'ana'")
    locations = {
        "outside": "../server.env",
        "claim": "adkpg-claim",
        "another's": theirs,
        "nothing": "",
    }
    # As tables of before, without the constraint, may hold it.
    await connection.execute("ALTER TABLE artifacts DROP CONSTRAINT artifacts_location_check")
    await connection.execute(
        "UPDATE artifacts SET location = $1 WHERE user_id = 'mallory'", locations[named]
    )
    with pytest.raises(ArtifactStoreError, match="not its own object"):
        await files.load_artifact(**MALLORY)
    if erased_by == "forget":
        await forget(database, **SCOPE)
    else:
        await files.delete_artifact(**MALLORY)
    assert await files.list_artifact_keys(**SCOPE) == []
    assert await sweep_objects(database) == SweptObjects(0, 0)
    assert await connection.fetchval("SELECT count(*) FROM artifact_removals") == 0
    assert (tmp_path / "server.env").read_bytes() == LARGE
    assert (tmp_path / "store" / "adkpg-claim").is_file()
    assert await files.load_artifact(**ANA) == blob(LARGE)


@pytest.mark.parametrize("link", ["object", "day", "claim"])
async def test_links_lead_nowhere(database: Database, tmp_path: Path, link: str) -> None:
    store, outside = tmp_path / "store", tmp_path / "outside"
    outside.mkdir()
    files = DatabaseArtifactService(database)
    await files.save_artifact(**MALLORY, artifact=blob(LARGE))
    (path,) = objects(store)
    path = {"object": path, "day": path.parent, "claim": store / "adkpg-claim"}[link]
    path.rename(outside / path.name)
    path.symlink_to(outside / path.name)
    before = {each: each.read_bytes() for each in outside.rglob("*") if each.is_file()}
    if link != "claim":
        with pytest.raises(ArtifactStoreError, match="symbolic link"):
            await files.load_artifact(**MALLORY)
    await files.delete_artifact(**MALLORY)
    with pytest.raises(ArtifactStoreError, match="symbolic link"):
        await sweep_objects(database)
    assert {each: each.read_bytes() for each in outside.rglob("*") if each.is_file()} == before


async def test_a_store_that_is_a_link_itself_works(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    async with Database(database_url, settings=settings_of(tmp_path / "link")) as database:
        files = DatabaseArtifactService(database)
        await files.save_artifact(**MALLORY, artifact=blob(LARGE))
        assert await files.load_artifact(**MALLORY) == blob(LARGE)
        await files.delete_artifact(**MALLORY)
    assert objects(tmp_path / "real") == []
