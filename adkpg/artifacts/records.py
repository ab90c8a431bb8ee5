"""Records: ADK's parts and versions, and the rows that they are stored as. No I/O."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.artifacts.base_artifact_service import ArtifactVersion, ensure_part
from google.genai import types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from adkpg import jsontext
from adkpg.artifacts.place import Place
from adkpg.errors import InvalidArtifact, InvalidInput
from adkpg.timestamps import unix

CHUNK_BYTES = 262_144
"""Bytes of a chunk, which a row of the database holds."""


@dataclass(frozen=True)
class Draft:
    """A part to be stored.

    Attributes:
      part: As JSON text, without its bytes; a text is empty in it.
      data: The bytes, or the text as UTF-8; None if there are neither.
      mime_type: None if it is not known.

    Raises:
      InvalidArtifact: The type cannot be stored.
    """

    part: str
    data: bytes | None
    mime_type: str | None

    def __post_init__(self) -> None:
        if self.mime_type is not None and jsontext.storable(self.mime_type) != self.mime_type:
            raise InvalidArtifact(
                f"mime_type={self.mime_type[:60]!r} holds NUL or a lone surrogate, which Postgres "
                "cannot store; give another."
            )


def draft(artifact: types.Part | dict[str, Any]) -> Draft:
    """Returns what is stored of a part.

    Raises:
      InvalidArtifact: It has neither bytes nor text nor the URI of a file, or is no part.
    """
    try:
        part = ensure_part(jsontext.mended(artifact))
    except (ValidationError, TypeError) as exc:  # TypeError: of keys that are no names
        raise InvalidArtifact(f"The artifact is not a types.Part: {exc}; correct it.") from exc
    if part.inline_data is not None:
        data = part.inline_data.data
        if data is None:
            raise InvalidArtifact("The artifact's inline_data has no data; give its bytes.")
        return Draft(_json(part, {"inline_data": {"data"}}), data, part.inline_data.mime_type)
    if part.text is not None:
        empty = part.model_copy(update={"text": ""})
        return Draft(_json(empty), jsontext.mended(part.text).encode(), "text/plain")
    if part.file_data is not None:
        return Draft(_json(part), None, part.file_data.mime_type)
    raise InvalidArtifact(
        "An artifact of this kind cannot be saved; give a Part with inline_data, text or file_data."
    )


def part(text: str, data: Iterable[bytes]) -> types.Part:
    """Returns the part that a draft was made of."""
    read = types.Part.model_validate_json(jsontext.mended_json(text))
    if read.inline_data is not None:
        read.inline_data.data = b"".join(data)
    elif read.text is not None:
        read.text = jsontext.mended(b"".join(data).decode(errors="surrogatepass"))
    return read


def described(custom_metadata: Mapping[str, Any] | None) -> str:
    """Returns a file's metadata as JSON text.

    Raises:
      InvalidArtifact: It is no object, or can be made into JSON in no way.
    """
    if not isinstance(custom_metadata, Mapping | None):
        raise InvalidArtifact(
            f"custom_metadata is {type(custom_metadata).__name__}; give a dict of JSON values."
        )
    try:
        return jsontext.write(jsontext.jsonable(custom_metadata or {}))
    except (InvalidInput, TypeError, ValueError, RecursionError) as exc:
        raise InvalidArtifact(
            f"custom_metadata cannot be written as JSON ({exc}); give simpler values."
        ) from exc


def version(place: Place, row: Mapping[str, Any]) -> ArtifactVersion:
    """Returns what ADK is told of a stored version."""
    return ArtifactVersion(
        version=row["version"],
        canonical_uri=place.uri(row["version"]),
        custom_metadata=jsontext.read(row["custom_metadata"]),
        create_time=unix(row["created_at"]),
        mime_type=row["mime_type"],
    )


def chunks(data: bytes) -> list[bytes]:
    """Cuts bytes into the chunks that rows hold."""
    return [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]


def blob(mime_type: str, display_name: str | None) -> str:
    """Returns the part of bytes that come from a stream, as JSON text.

    Raises:
      InvalidArtifact: The type or the name is not a text.
    """
    inline = {"mime_type": mime_type}
    if display_name is not None:
        inline["display_name"] = display_name
    for name, value in inline.items():
        if not isinstance(value, str):
            raise InvalidArtifact(f"{name} is {type(value).__name__}; give a str.")
    return jsontext.mended_json(json.dumps({"inline_data": inline}))


def _json(part: types.Part, exclude: dict[str, set[str]] | None = None) -> str:
    try:
        return part.model_dump_json(exclude_none=True, exclude=exclude)
    except (PydanticSerializationError, UnicodeEncodeError, ValueError) as exc:
        raise InvalidArtifact(
            f"The artifact cannot be written as JSON ({exc}); correct its names and metadata."
        ) from exc
