"""Options of libpq's and of others in a database URL: taken, without need here, or refused."""

import pytest

from adkpg.database.address import parse
from adkpg.errors import ConfigurationError


@pytest.mark.parametrize(
    "query",
    [
        "keepalives=1&keepalives_idle=30&keepalives_interval=10&keepalives_count=3",
        "tcp_user_timeout=1000",
        "gssencmode=disable",
        "gssencmode=prefer",
        "load_balance_hosts=disable",
        "pgbouncer=true",
        "prepared_statement_cache_size=0",
    ],
)
def test_what_needs_nothing_here_is_left_out(query: str) -> None:
    assert parse(f"postgresql://u@h/d?{query}").dsn == "postgresql://u@h/d"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("gssencmode=require", "no gssencmode=require"),
        ("load_balance_hosts=random", "no load_balance_hosts=random"),
        ("pgbouncer=true&connection_limit=1", "set ADKPG_POOL_SIZE"),
        ("schema=tenant", "set ADKPG_DATABASE_SCHEMA"),
        ("pool_timeout=10", "set ADKPG_POOL_TIMEOUT_S"),
        ("require_auth=scram-sha-256", r"pg_hba\.conf"),
        ("hostaddr=10.0.0.1&sslmode=verify-full", "name the host alone"),
        ("hostaddr=10.0.0.1,10.0.0.2", "name the host alone"),
    ],
)
def test_what_cannot_be_taken_is_named_with_a_cure(query: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse(f"postgresql://u:pa55@h/d?{query}")


@pytest.mark.parametrize(
    ("location", "address", "place"),
    [
        ("h:6432", "10.0.0.1", "10.0.0.1:6432"),
        ("h", "::1", "[::1]"),
        ("[::2]:1", "::1", "[::1]:1"),
        ("", "10.0.0.1", "10.0.0.1"),
    ],
)
def test_a_hosts_address_is_where_it_connects(location: str, address: str, place: str) -> None:
    assert parse(f"postgresql://{location}/d?hostaddr={address}").dsn == f"postgresql://{place}/d"
    named = parse(f"postgresql://{location}/d?host=h&hostaddr={address}")
    assert named.dsn == f"postgresql://{place}/d"
