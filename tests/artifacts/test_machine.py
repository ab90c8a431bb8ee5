"""Any sequence of calls does what ADK's in-memory and file services do.

Known differences of the models are met here: the in-memory service refuses a file of no session,
which the file service takes for the user's own; the file service forgets that a text is a text's
MIME type, and compares nothing of its URIs.
"""

import asyncio
import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from google.adk.artifacts import FileArtifactService, InMemoryArtifactService
from google.adk.artifacts.artifact_util import get_artifact_uri
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from adkpg import DatabaseArtifactService

pytestmark = pytest.mark.property

users = st.sampled_from(["u", "ü", "u/v"])
sessions = st.sampled_from(["s", "t"])
names = st.sampled_from(["a.txt", "dir/b.png", "user:c", "user:dir/a.txt", "ünï %2F?.txt"])
metadata: st.SearchStrategy[Any] = (
    st.none() | st.just({}) | st.fixed_dictionaries({"k": st.integers(-9, 9) | st.text()})
)
blobs = st.builds(
    lambda data, kind, shown: types.Part(
        inline_data=types.Blob(data=data, mime_type=kind, display_name=shown)
    ),
    st.binary(max_size=20),
    st.sampled_from(["image/png", "application/octet-stream"]),
    st.none() | st.just("shown"),
)
texts = st.builds(lambda text: types.Part(text=text), st.text(max_size=9))
files = st.builds(
    lambda uri: types.Part(file_data=types.FileData(file_uri=uri, mime_type="text/csv")),
    st.just("gs://bucket/x.csv"),
)
bad = st.sampled_from([types.Part(), types.Part(function_call=types.FunctionCall(name="f"))])
versions = st.none() | st.integers(-1, 3)


async def told(call: Any) -> Any:
    try:
        return await call
    except InputValidationError:
        return InputValidationError


def known(versions: Any) -> Any:
    """What two services must agree on of versions: all but when, and where."""
    return [(each.version, each.custom_metadata, each.mime_type) for each in versions]


class ArtifactsMachine(RuleBasedStateMachine):
    """Runs every call on both services and compares all that can be seen."""

    runner: asyncio.Runner
    ours: BaseArtifactService
    of_files: bool
    runs = itertools.count()

    @initialize()
    def begin(self) -> None:
        self.app = f"run {next(self.runs)}"  # keeps the examples apart
        self.folder = Path(tempfile.mkdtemp()) if self.of_files else None
        self.model: BaseArtifactService = (
            FileArtifactService(self.folder) if self.folder else InMemoryArtifactService()
        )

    def teardown(self) -> None:
        if getattr(self, "folder", None):
            shutil.rmtree(str(self.folder))

    def _both(self, name: str, **arguments: Any) -> tuple[Any, Any]:
        arguments = {"app_name": self.app, **arguments}
        calls = (getattr(each, name)(**arguments) for each in (self.model, self.ours))
        model, ours = (self.runner.run(told(call)) for call in calls)
        return model, ours

    @rule(user=users, session=sessions, name=names, part=blobs | texts, metadata=metadata)
    def save(self, user: str, session: str, name: str, part: types.Part, metadata: Any) -> None:
        model, ours = self._both(
            "save_artifact",
            user_id=user,
            session_id=session,
            filename=name,
            artifact=part,
            custom_metadata=metadata,
        )
        assert ours == model

    @rule(user=users, session=sessions, name=names, part=bad | files)
    def save_other(self, user: str, session: str, name: str, part: types.Part) -> None:
        if self.of_files:
            return
        model, ours = self._both(
            "save_artifact", user_id=user, session_id=session, filename=name, artifact=part
        )
        assert ours == model

    @rule(user=users, session=sessions, name=names, to=names, other=sessions, version=versions)
    def refer(
        self, user: str, session: str, name: str, to: str, other: str, version: int | None
    ) -> None:
        if self.of_files:
            return
        uri = get_artifact_uri(
            app_name=self.app,
            user_id=user,
            filename=to,
            version=version or 0,
            session_id=None if to.startswith("user:") else other,
        )
        part = types.Part(file_data=types.FileData(file_uri=uri))
        model, ours = self._both(
            "save_artifact", user_id=user, session_id=session, filename=name, artifact=part
        )
        assert ours == model

    @rule(user=users, session=sessions, name=names, version=versions)
    def load(self, user: str, session: str, name: str, version: int | None) -> None:
        model, ours = self._both(
            "load_artifact", user_id=user, session_id=session, filename=name, version=version
        )
        if self.of_files and model is not None and model.inline_data is None:
            model, ours = model.text, ours.text
        assert ours == model

    @rule(user=users, session=sessions, name=names)
    def delete(self, user: str, session: str, name: str) -> None:
        model, ours = self._both("delete_artifact", user_id=user, session_id=session, filename=name)
        assert ours == model

    @rule(user=users, session=sessions, name=names, version=versions)
    def describe(self, user: str, session: str, name: str, version: int | None) -> None:
        place = {"user_id": user, "session_id": session, "filename": name}
        model, ours = self._both("list_versions", **place)
        assert ours == model
        model, ours = self._both("list_artifact_versions", **place)
        if not self.of_files:
            assert known(ours) == known(model)
            model, ours = self._both("get_artifact_version", **place, version=version)
            assert known([ours] if ours else []) == known([model] if model else [])
        else:
            assert [each.custom_metadata for each in ours] == [
                each.custom_metadata for each in model
            ]

    @rule(user=st.sampled_from(["", "..", "a\x00", "/a", "a/../b", "C:x"]), session=sessions)
    def refuse(self, user: str, session: str) -> None:
        for place in ({"user_id": user}, {"user_id": "u", "session_id": user}):
            arguments = {"session_id": session, "filename": "a.txt", **place}
            model, ours = self._both("load_artifact", **arguments)
            assert ours == model
            model, ours = self._both("save_artifact", artifact=types.Part(text="x"), **arguments)
            assert ours == model

    @invariant()
    def names_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        for user, session in itertools.product(("u", "ü", "u/v"), ("s", "t", None)):
            model, ours = self._both("list_artifact_keys", user_id=user, session_id=session)
            assert ours == model


@pytest.mark.parametrize("of_files", [False, True], ids=["in-memory", "file"])
def test_artifacts_do_what_the_model_does(database_url: str, of_files: bool) -> None:
    with asyncio.Runner() as runner:
        ours = DatabaseArtifactService(database_url)
        fields = {"runner": runner, "ours": ours, "of_files": of_files}
        machine = type("Machine", (ArtifactsMachine,), fields)
        run_state_machine_as_test(machine, settings=settings(stateful_step_count=20))
        runner.run(ours.close())
