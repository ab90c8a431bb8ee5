"""The environment that leads Postgres's own programs to where a URL leads."""

import pytest

from adkpg.database import address
from adkpg.database.libpq import environment


@pytest.mark.parametrize(
    ("url", "found"),
    [
        (
            "postgresql://me:a%40b@db.example:6432/agents",
            {
                "PGUSER": "me",
                "PGPASSWORD": "a@b",
                "PGHOST": "db.example",
                "PGPORT": "6432",
                "PGDATABASE": "agents",
            },
        ),
        ("postgres://db.example/agents", {"PGHOST": "db.example", "PGDATABASE": "agents"}),
        (
            "postgresql://one:1,[::1],three:3/agents?target_session_attrs=read-write",
            {
                "PGHOST": "one,::1,three",
                "PGPORT": "1,5432,3",
                "PGDATABASE": "agents",
                "PGTARGETSESSIONATTRS": "read-write",
            },
        ),
        (
            "postgresql://me@/agents?host=/run/a%20b&port=5433&sslmode=require&connect_timeout=5",
            {
                "PGUSER": "me",
                "PGDATABASE": "agents",
                "PGHOST": "/run/a b",
                "PGPORT": "5433",
                "PGSSLMODE": "require",
                "PGCONNECT_TIMEOUT": "5",
            },
        ),
        (
            "postgresql://h/d?search_path=a, b&ssl=true&sslrootcert=/ca.pem",
            {
                "PGHOST": "h",
                "PGDATABASE": "d",
                "PGOPTIONS": "-c search_path=a,\\ b",
                "PGSSLMODE": "require",
                "PGSSLROOTCERT": "/ca.pem",
            },
        ),
    ],
)
def test_each_part_of_a_url_has_its_variable(url: str, found: dict[str, str]) -> None:
    assert environment(address.parse(url)) == found


def test_a_password_of_its_own_wins() -> None:
    target = address.parse("postgresql://me:old@h/d")
    assert environment(target, "new")["PGPASSWORD"] == "new"
