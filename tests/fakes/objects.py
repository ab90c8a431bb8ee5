"""Large files, and the folder that stands for an object store."""

from pathlib import Path
from typing import Any

import asyncpg
from google.genai import types

from adkpg import Settings

LARGE = bytes(range(256)) * 20


def blob(data: bytes) -> types.Part:
    return types.Part(inline_data=types.Blob(data=data, mime_type="video/mp4"))


def settings_of(folder: Path, **more: Any) -> Settings:
    return Settings(
        artifact_store=f"file://{folder}",  # type: ignore[arg-type] # pydantic reads it
        artifact_store_above_kb=1,
        **more,
    )


def objects(folder: Path) -> list[Path]:
    """Those of files, without the claim."""
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and path.name != "adkpg-claim"
    )


async def age_claims(connection: asyncpg.Connection, interval: str) -> None:
    """Lets time pass since the folder was claimed."""
    await connection.execute(
        f"UPDATE artifact_claims SET claimed_at = now() - interval '{interval}'"
    )
