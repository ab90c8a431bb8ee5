"""Line: what an act tells the process that started it, one JSON text per line of its output."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class Line(BaseModel):
    """What an act tells, in one of the kinds below."""

    model_config = ConfigDict(frozen=True)

    def dump(self) -> str:
        """Returns the line as ASCII JSON, so that any output encoding carries it."""
        return json.dumps({"kind": type(self).__name__, **self.model_dump(mode="json")})


class Started(Line):
    """The act's process runs, and has not opened anything yet."""

    process_id: int


class Ended(Line):
    """The act is over, and its process closes what it opened."""


class Opened(Line):
    """The session that the act begins or resumes, and how many events are stored of it."""

    session_id: str
    stored_events: int


class Said(Line):
    """A turn of the conversation."""

    author: str
    text: str


class Called(Line):
    """A tool that the model called."""

    tool: str
    arguments: dict[str, Any]


class Requested(Line):
    """A request to the model.

    Attributes:
      contents: How many contents it carried: the turns of the session, tool calls included, and
        what `preload_memory` put before them.
    """

    contents: int


class State(Line):
    """A session's state as it is stored, all scopes merged."""

    values: dict[str, Any]


class Found(BaseModel):
    """One memory that a search found; see `adkpg.memory.search.hits.Hit`."""

    score: float
    lexical: float
    cosine: float | None
    text: str


class Searched(Line):
    """The memories that answer a question, the best first."""

    question: str
    found: list[Found]


class Rows(Line):
    """How many rows of the demo's user a table holds, and what the table is for."""

    table: str
    count: int
    comment: str


class Checked(Line):
    """A claim of the demo, and whether it held."""

    claim: str
    held: bool


def read(text: str) -> Line:
    """Reads what `dump` wrote."""
    values = json.loads(text)
    kinds = {kind.__name__: kind for kind in Line.__subclasses__()}
    return kinds[values.pop("kind")].model_validate(values)
