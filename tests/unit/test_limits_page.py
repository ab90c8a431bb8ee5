"""docs/limits.md says what the settings and keys say."""

import re
from pathlib import Path

from adkpg import Settings
from adkpg.keys import MAX_BYTES, MAX_SCOPE_BYTES, MAX_SOURCE_BYTES
from adkpg.memory.filters import MOST_VALUES

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
UNITS = {"mb": " MB", "kb": " kB"}


def test_the_table_has_every_limit_and_its_default() -> None:
    rows = re.findall(r"^\| .* \| (\S+) \| (.*?) \| .* \|$", PAGE.read_text(), re.MULTILINE)
    settings = {
        (f"`ADKPG_{name.upper()}`", f"{field.default:,}{UNITS.get(name[-2:], '')}")
        for name, field in Settings.model_fields.items()
        if name.startswith("max_")
    }
    fixed = {
        ("fixed", f"{most:,} bytes") for most in (MAX_BYTES, MAX_SCOPE_BYTES, MAX_SOURCE_BYTES)
    }
    fixed.add(("fixed", f"{MOST_VALUES:,} values"))
    assert set(rows) - {("most", "by default")} == settings | fixed
