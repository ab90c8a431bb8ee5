"""Line: what an act tells the process that started it, one JSON text per line of its output."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True)

    def dump(self) -> str:
        """Returns the line as ASCII JSON, so that any output encoding carries it."""
        return json.dumps(self.model_dump(mode="json"))


class Started(_Line):
    """The act's process runs, and has not opened anything yet."""

    kind: Literal["started"] = "started"
    process_id: int


class Opened(_Line):
    """The session that the act begins or resumes, and how many events are stored of it."""

    kind: Literal["opened"] = "opened"
    session_id: str
    stored_events: int


class Said(_Line):
    """A turn of the conversation."""

    kind: Literal["said"] = "said"
    author: str
    text: str


class Called(_Line):
    """A tool that the model called."""

    kind: Literal["called"] = "called"
    tool: str
    arguments: dict[str, Any]


class Requested(_Line):
    """A request to the model.

    Attributes:
      contents: How many contents it carried: the turns of the session, tool calls included, and
        what `preload_memory` put before them.
    """

    kind: Literal["requested"] = "requested"
    contents: int


class State(_Line):
    """A session's state as it is stored, all scopes merged."""

    kind: Literal["state"] = "state"
    values: dict[str, Any]


class Found(BaseModel):
    """One memory that a search found; see `adkpg.memory.search.hits.Hit`."""

    score: float
    lexical: float
    cosine: float | None
    text: str


class Searched(_Line):
    """The memories that answer a question, the best first."""

    kind: Literal["searched"] = "searched"
    question: str
    found: list[Found]


class Rows(_Line):
    """How many rows of the demo's user a table holds, and what the table is for."""

    kind: Literal["rows"] = "rows"
    table: str
    count: int
    comment: str


class Checked(_Line):
    """A claim of the demo, and whether it held."""

    kind: Literal["checked"] = "checked"
    claim: str
    held: bool


Line = Annotated[
    Started | Opened | Said | Called | Requested | State | Searched | Rows | Checked,
    Field(discriminator="kind"),
]

_LINES: TypeAdapter[Line] = TypeAdapter(Line)


def read(text: str) -> Line:
    """Reads what `dump` wrote."""
    return _LINES.validate_json(text)
