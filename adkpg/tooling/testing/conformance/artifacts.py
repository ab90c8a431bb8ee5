"""What ADK expects of an artifact service, as a suite to inherit."""

import asyncio
from typing import Any

import pytest
from google.adk.artifacts.artifact_util import get_artifact_uri
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}
SESSION: dict[str, Any] = USER | {"session_id": "s"}
FILE: dict[str, Any] = SESSION | {"filename": "a.bin"}
_NAMES = ["a.txt", "dir/b.txt", "Ünïcödé 🙂", "%s $1 :name ;--", "a'b\"c", "a?b#c%2F", ".hidden"]
_REFUSED = ["", "..", "a/../b", "a\x00", "/a", "\\a", "C:x"]


def blob(data: bytes, mime_type: str = "image/png", **more: Any) -> types.Part:
    """Returns a Part with bytes."""
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type, **more))


def words(text: str) -> types.Part:
    """Returns a Part with a text."""
    return types.Part(text=text)


class ArtifactServiceConformance:
    """Tests of an artifact service; inherit them and give the fixture ``service``.

    Each test wants a service without files. They say what ADK's interface says and its services in
    memory and on disk agree on. Where those disagree no test asks: what a file of no session is,
    the MIME type of a text, whether a reference (``file_data``) is kept. A service that differs on
    purpose overrides that test and says why; for the coroutines' marks see
    `SessionServiceConformance`.
    """

    @pytest.fixture
    def service(self) -> BaseArtifactService:
        """The service under test, without files: to be overridden."""
        raise NotImplementedError("Override the fixture `service`: it returns what is tested.")

    async def test_versions_count_from_zero(self, service: BaseArtifactService) -> None:
        parts = [blob(b"zero"), blob(b"one", "text/csv"), words("two")]
        assert [await service.save_artifact(**FILE, artifact=part) for part in parts] == [0, 1, 2]
        assert await service.list_versions(**FILE) == [0, 1, 2]
        for version, part in enumerate(parts):
            assert await service.load_artifact(**FILE, version=version) == part
        assert await service.load_artifact(**FILE) == words("two")

    async def test_each_name_counts_by_itself(self, service: BaseArtifactService) -> None:
        for place in (FILE, FILE | {"filename": "b"}, FILE | {"session_id": "t"}):
            assert await service.save_artifact(**place, artifact=words("x")) == 0

    async def test_what_is_not_there_is_none(self, service: BaseArtifactService) -> None:
        assert await service.load_artifact(**FILE) is None
        assert await service.list_versions(**FILE) == []
        assert await service.list_artifact_versions(**FILE) == []
        assert await service.get_artifact_version(**FILE) is None
        assert await service.list_artifact_keys(**SESSION) == []
        await service.save_artifact(**FILE, artifact=words("x"))
        for version in (1, 99, -1):
            assert await service.load_artifact(**FILE, version=version) is None

    @pytest.mark.parametrize("data", [b"x", bytes(range(256)), b"\x00" * 3_000_000])
    async def test_bytes_come_back(self, service: BaseArtifactService, data: bytes) -> None:
        await service.save_artifact(**FILE, artifact=blob(data, "application/pdf"))
        assert await service.load_artifact(**FILE) == blob(data, "application/pdf")

    @pytest.mark.parametrize("text", ["plain", "Ünïcödé 🙂", "two\nlines", ""])
    async def test_a_text_comes_back_as_a_text(
        self, service: BaseArtifactService, text: str
    ) -> None:
        await service.save_artifact(**FILE, artifact=words(text))
        assert await service.load_artifact(**FILE) == words(text)

    async def test_a_text_keeps_its_ends_of_lines(self, service: BaseArtifactService) -> None:
        await service.save_artifact(**FILE, artifact=words("of\r\nDOS"))
        assert await service.load_artifact(**FILE) == words("of\r\nDOS")

    async def test_a_part_may_be_a_dict(self, service: BaseArtifactService) -> None:
        for part in (
            {"inlineData": {"mimeType": "image/png", "data": "AAEC"}},
            {"inline_data": {"mime_type": "image/png", "data": b"\x00\x01\x02"}},
        ):
            await service.save_artifact(**FILE, artifact=part)
            assert await service.load_artifact(**FILE) == blob(b"\x00\x01\x02")

    async def test_a_part_without_content_is_refused(self, service: BaseArtifactService) -> None:
        with pytest.raises(InputValidationError):
            await service.save_artifact(**FILE, artifact=types.Part())
        assert await service.list_versions(**FILE) == []

    async def test_a_blob_without_bytes_is_refused(self, service: BaseArtifactService) -> None:
        nothing = types.Part(inline_data=types.Blob(mime_type="image/png"))
        with pytest.raises(InputValidationError):
            await service.save_artifact(**FILE, artifact=nothing)
        assert await service.list_versions(**FILE) == []

    async def test_names_are_sorted_and_each_is_listed_once(
        self, service: BaseArtifactService
    ) -> None:
        for name in (*_NAMES, *_NAMES):
            await service.save_artifact(**SESSION, filename=name, artifact=words(name))
        assert await service.list_artifact_keys(**SESSION) == sorted(_NAMES)
        for name in _NAMES:
            assert await service.load_artifact(**SESSION, filename=name) == words(name)

    async def test_a_file_of_the_user_is_seen_in_each_session(
        self, service: BaseArtifactService
    ) -> None:
        await service.save_artifact(**SESSION, filename="user:b", artifact=words("mine"))
        await service.save_artifact(**SESSION, filename="a", artifact=words("of s"))
        assert await service.list_artifact_keys(**SESSION) == ["a", "user:b"]
        assert await service.list_artifact_keys(**USER, session_id="t") == ["user:b"]
        assert await service.list_artifact_keys(**USER) == ["user:b"]
        for session_id in ("s", "t", None):
            place = USER | {"session_id": session_id, "filename": "user:b"}
            assert await service.load_artifact(**place) == words("mine")
        assert (
            await service.save_artifact(
                **USER, session_id="t", filename="user:b", artifact=words("again")
            )
            == 1
        )

    async def test_nobody_sees_anothers(self, service: BaseArtifactService) -> None:
        await service.save_artifact(**FILE, artifact=words("secret"))
        await service.save_artifact(**SESSION, filename="user:b", artifact=words("secret"))
        for other in ({"user_id": "other"}, {"app_name": "other"}):
            assert await service.load_artifact(**(FILE | other)) is None
            assert await service.list_artifact_keys(**(SESSION | other)) == []
            await service.delete_artifact(**(FILE | other))
        assert await service.load_artifact(**(FILE | {"session_id": "t"})) is None
        assert await service.load_artifact(**FILE) == words("secret")

    async def test_a_deletion_takes_all_versions(self, service: BaseArtifactService) -> None:
        for _ in range(2):
            await service.save_artifact(**FILE, artifact=words("x"))
        await service.save_artifact(**SESSION, filename="other", artifact=words("stays"))
        for _ in range(2):  # of what is gone, too
            await service.delete_artifact(**FILE)
        assert await service.load_artifact(**FILE, version=0) is None
        assert await service.list_artifact_keys(**SESSION) == ["other"]
        assert await service.save_artifact(**FILE, artifact=words("again")) == 0

    async def test_what_a_version_is(self, service: BaseArtifactService) -> None:
        told = {"k": "v", "ünï": "ü"}
        await service.save_artifact(**FILE, artifact=blob(b"0"), custom_metadata=told)
        await service.save_artifact(**FILE, artifact=blob(b"1", "text/csv"))
        first, second = await service.list_artifact_versions(**FILE)
        assert (first.version, first.mime_type, first.custom_metadata) == (0, "image/png", told)
        assert (second.version, second.mime_type, second.custom_metadata) == (1, "text/csv", {})
        assert first.create_time <= second.create_time
        assert first.canonical_uri
        assert first.canonical_uri != second.canonical_uri
        assert await service.get_artifact_version(**FILE) == second
        assert await service.get_artifact_version(**FILE, version=0) == first
        assert await service.get_artifact_version(**FILE, version=2) is None

    async def test_a_rewinds_mark_is_a_version_that_loads_as_none(
        self, service: BaseArtifactService
    ) -> None:
        await service.save_artifact(**FILE, artifact=blob(b"x"))
        mark = blob(b"", "application/octet-stream")
        assert await service.save_artifact(**FILE, artifact=mark) == 1
        assert await service.load_artifact(**FILE) is None
        assert await service.load_artifact(**FILE, version=0) == blob(b"x")
        assert await service.list_versions(**FILE) == [0, 1]
        assert await service.list_artifact_keys(**SESSION) == ["a.bin"]

    @pytest.mark.parametrize("refused", _REFUSED)
    @pytest.mark.parametrize("which", ["app_name", "user_id", "session_id"])
    async def test_ids_that_lead_elsewhere_are_refused(
        self, service: BaseArtifactService, which: str, refused: str
    ) -> None:
        with pytest.raises(InputValidationError):
            await service.save_artifact(**(FILE | {which: refused}), artifact=words("x"))
        with pytest.raises(InputValidationError):
            await service.load_artifact(**(FILE | {which: refused}))

    async def test_saves_at_once_get_a_version_each(self, service: BaseArtifactService) -> None:
        saves = [service.save_artifact(**FILE, artifact=words(str(n))) for n in range(8)]
        versions = await asyncio.gather(*saves)
        assert sorted(versions) == list(range(8))
        for number, version in enumerate(versions):
            assert await service.load_artifact(**FILE, version=version) == words(str(number))

    async def test_what_was_given_and_got_is_the_callers(
        self, service: BaseArtifactService
    ) -> None:
        """Changing either changes nothing that is stored."""
        metadata = {"k": "v"}
        await service.save_artifact(**FILE, artifact=words("x"), custom_metadata=metadata)
        metadata["k"] = "changed"
        told = await service.get_artifact_version(**FILE)
        assert told is not None
        assert told.custom_metadata == {"k": "v"}
        loaded = await service.load_artifact(**FILE)
        assert loaded is not None
        loaded.text = "changed"
        assert await service.load_artifact(**FILE) == words("x")

    async def test_a_reference_leads_to_the_file(self, service: BaseArtifactService) -> None:
        await service.save_artifact(**FILE, artifact=words("here"))
        uri = get_artifact_uri("app", "user", "a.bin", 0, session_id="s")
        reference = types.Part(file_data=types.FileData(file_uri=uri))
        await service.save_artifact(**SESSION, filename="link", artifact=reference)
        assert await service.load_artifact(**SESSION, filename="link") == words("here")

    async def test_a_reference_to_anothers_is_refused(self, service: BaseArtifactService) -> None:
        uri = get_artifact_uri("app", "other", "a.bin", 0, session_id="s")
        reference = types.Part(file_data=types.FileData(file_uri=uri))
        with pytest.raises(InputValidationError):
            await service.save_artifact(**FILE, artifact=reference)
