"""Later versions of adkpg, made up: the revisions of today and some more."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adkpg.database.migrating import migrations

ADDITIVE_COLUMN = """
    op.add_column("sessions", sa.Column("mood", sa.Text()), schema=schema)
"""
RENAMED_COLUMN = """
    op.alter_column("sessions", "state", new_column_name="condition", schema=schema)
"""
CONCURRENT_INDEX = """
    concurrent_index.build("sessions_updated_at_idx", "sessions", ["updated_at"])
"""
SLOW = """
    op.execute("SELECT pg_sleep(0.5)")
"""

_REVISION = '''"""A made-up revision."""

import sqlalchemy as sa
from alembic import op

from adkpg.database.migrating import concurrent_index

revision = "{number:04}"
down_revision = "{before}"
additive = {additive}


def upgrade():
    schema = op.get_context().version_table_schema
{body}


def downgrade():
    pass
'''


@contextmanager
def later_version(
    place: Path, *bodies: str, additive: bool | list[bool] = True
) -> Iterator[list[str]]:
    """Makes this process one of a later version, whose schema has one more revision per body.

    Args:
      place: An empty folder for its scripts.
      *bodies: What each revision's ``upgrade`` does.
      additive: Whether each revision, or all, leaves its predecessor's code working.

    Yields:
      The ids of the revisions.
    """
    before = migrations.expected()
    scripts = place / "alembic"
    shutil.copytree(migrations.scripts(), scripts)
    marks = additive if isinstance(additive, list) else [additive] * len(bodies)
    revisions = []
    for number, (body, mark) in enumerate(zip(bodies, marks, strict=True), 2):
        script = _REVISION.format(number=number, before=before, additive=mark, body=body)
        (scripts / "versions" / f"{number:04}_made_up.py").write_text(script, encoding="utf-8")
        before = f"{number:04}"
        revisions.append(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "scripts", lambda: scripts)
        yield revisions
