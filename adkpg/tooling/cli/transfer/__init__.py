"""``adkpg import`` and ``adkpg export``: in from elsewhere, and out again."""

from adkpg.tooling.cli.transfer.exporting import export
from adkpg.tooling.cli.transfer.importing import import_

__all__ = ["export", "import_"]
