"""Places: whose a file is, under which name, and the URI that says so. Pure."""

from dataclasses import dataclass
from urllib.parse import quote

from google.adk.artifacts import artifact_util
from google.adk.errors.input_validation_error import InputValidationError

from adkpg.errors import InvalidArtifact, InvalidInput
from adkpg.keys import ScopeKey, SessionKey, require_storable

USER_PREFIX = "user:"
"""Begins the names of files that all sessions of a user share."""

_SEGMENT = ":@!$&'()*+,;="  # what RFC 3986 allows in a segment besides letters and digits


class FileKey(SessionKey):
    """All versions of a file; of the user's own, the session is ``""``."""

    name: str


@dataclass(frozen=True)
class Place:
    """Where a file is.

    Attributes:
      app_name: The app.
      user_id: The user.
      session_id: ``""`` is the user's own, whatever the session. A session may be named ``user``:
        it is another.
      name: With the prefix ``user:`` exactly if it is the user's own.
    """

    app_name: str
    user_id: str
    session_id: str
    name: str

    @property
    def key(self) -> FileKey:
        """As queries take it."""
        return {
            "app_name": self.app_name,
            "user_id": self.user_id,
            "session_id": self.session_id,
            "name": self.name,
        }

    def uri(self, version: int) -> str:
        """Returns the canonical URI of a version; what would read as another place is escaped."""
        app_name, user_id, session_id = (
            quote(each, safe=_SEGMENT) for each in (self.app_name, self.user_id, self.session_id)
        )
        within = f"/sessions/{session_id}" if session_id else ""
        name = quote(self.name, safe=f"{_SEGMENT}/")
        return (
            f"adkpg://apps/{app_name}/users/{user_id}{within}/artifacts/{name}/versions/{version}"
        )


def place(app_name: str, user_id: str, filename: str, session_id: str | None) -> Place:
    """Returns the place that ADK's arguments name.

    A file is the user's own by its prefix, and also, as ADK's interface says, without a session.

    Raises:
      InvalidArtifact: An id or the name cannot be stored, or reads as a path.
    """
    _require_segments(app_name, user_id, session_id)
    shared = filename.startswith(USER_PREFIX)
    if session_id is None and not shared:
        filename, shared = USER_PREFIX + filename, True
    try:
        require_storable(
            app_name=app_name, user_id=user_id, session_id=session_id, filename=filename
        )
    except InvalidInput as exc:
        raise InvalidArtifact(str(exc)) from exc
    return Place(app_name, user_id, "" if shared or session_id is None else session_id, filename)


def scope(app_name: str, user_id: str, session_id: str | None) -> ScopeKey:
    """Returns whose files are listed.

    Raises:
      InvalidArtifact: An id cannot be stored, or reads as a path.
    """
    whole = place(app_name, user_id, "", session_id)
    return {"app_name": whole.app_name, "user_id": whole.user_id}


def _require_segments(app_name: str, user_id: str, session_id: str | None) -> None:
    named = {"app_name": app_name, "user_id": user_id}
    if session_id is not None:
        named["session_id"] = session_id
    for name, value in named.items():
        try:
            artifact_util.validate_path_segment(value, name)
        except InputValidationError as exc:
            raise InvalidArtifact(f"{exc} Give another {name}.") from exc
