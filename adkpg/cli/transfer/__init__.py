"""``adkpg import`` and ``adkpg export``: in from elsewhere, and out again."""

from adkpg.cli.transfer.exporting import export
from adkpg.cli.transfer.importing import import_

__all__ = ["export", "import_"]
