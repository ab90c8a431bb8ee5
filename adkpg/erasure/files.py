"""A person's files, which ADK's artifact service keeps."""

from collections.abc import Iterable

from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError


async def delete_files(
    service: BaseArtifactService,
    *,
    app_name: str,
    user_id: str,
    session_ids: Iterable[str],
    dry_run: bool = False,
) -> int:
    """Deletes all versions of a person's files, and returns how many files there were.

    An artifact service knows no list of sessions: files of a session that is not named stay.

    Args:
      service: Where the files are.
      app_name: The app.
      user_id: The user; the files that all their sessions share (``user:``) go first.
      session_ids: The user's sessions.
      dry_run: Only counts.
    """
    shared = await _names(service, app_name, user_id, None)
    count = len(shared)
    if not dry_run:
        for name in shared:
            await service.delete_artifact(app_name=app_name, user_id=user_id, filename=name)
    for session_id in session_ids:
        names = set(await _names(service, app_name, user_id, session_id))
        if dry_run:  # a session's list holds the shared files too, which else are gone by now
            names -= set(shared)
        count += len(names)
        if not dry_run:
            for name in sorted(names):
                await service.delete_artifact(
                    app_name=app_name, user_id=user_id, filename=name, session_id=session_id
                )
    return count


async def _names(
    service: BaseArtifactService, app_name: str, user_id: str, session_id: str | None
) -> list[str]:
    try:
        return await service.list_artifact_keys(
            app_name=app_name, user_id=user_id, session_id=session_id
        )
    except InputValidationError:  # an id that the service refuses, so it has nothing under it
        return []
