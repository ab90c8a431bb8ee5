"""What a server is asked of itself: who it is, and how much of the primary's log it shows."""

from typing import TypedDict

from adkpg.queries import Queries, Query

_sql = Queries(__file__)

STANDING = _sql.text("standing")
"""Who answers, and where it stands."""


class Server(TypedDict):
    """A server: who it is, where it stands, and which database of which cluster it serves.

    Positions are bytes of the log. A primary shows what is written, be it on its disk or not;
    `flushed` is null on a standby.
    """

    server: float
    position: int
    flushed: int | None
    flush_delay_s: float
    clock_s: float
    standby: bool
    cluster: str
    database: str
    timeline: int


@_sql.query()
def identify() -> Query[Server]:
    """Reads who a server is, where it stands, and what it serves."""
