"""Query of where the bytes of files are; its SQL is in artifact_statements.sql."""

from typing import TypedDict

from adkpg.queries import Queries, Query

_sql = Queries(__file__)


class ArtifactId(TypedDict):
    """A version's own id."""

    artifact_id: str


@_sql.query()
def select_elsewhere(
    *, app_names: list[str], user_ids: list[str], artifact_ids: list[str]
) -> Query[ArtifactId]:
    """Reads which of some versions have their bytes in an object store."""
