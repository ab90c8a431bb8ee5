"""What `adkpg db grants` prints, in the form that a cluster takes, too."""

import re

import pytest

from adkpg.database.grants import Purpose, script
from adkpg.tables import metadata


@pytest.mark.parametrize("purpose", ["serve", "read", "work"])
def test_each_table_has_a_grant_of_its_own_and_what_others_refer_to_comes_first(
    purpose: Purpose,
) -> None:
    granted = re.findall(
        r'^GRANT SELECT(?:, [A-Z, ]+)? ON (.*) TO "someone";$',
        script("adkpg", purpose, "someone"),
        re.MULTILINE,
    )
    names = [each.removeprefix('"adkpg".') for each in granted]
    assert sorted(names) == sorted(["adkpg_version", *(t.name for t in metadata.sorted_tables)])
    for table in metadata.sorted_tables:
        if "user_id" in table.c:
            for key in table.foreign_keys:
                if "user_id" not in key.column.table.c:
                    assert names.index(key.column.table.name) < names.index(table.name)
