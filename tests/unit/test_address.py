"""Every URL form, its options, and that no password is ever shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import create_async_engine

from adkpg import Database, DatabaseSessionService
from adkpg.adk import SessionService
from adkpg.database.address import Address, parse
from adkpg.database.libpq import environment
from adkpg.errors import ConfigurationError

PASSWORD = "s3cr3t-pa55"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg", "adkpg"])
def test_forms_are_one(scheme: str) -> None:
    assert parse(f"{scheme}://u:p@h:5433/d").dsn == "postgresql://u:p@h:5433/d"


@pytest.mark.parametrize("url", ["embedded", "adkpg://embedded", "adkpg://embedded/", " embedded "])
def test_embedded_is_the_server_that_comes_along(url: str) -> None:
    address = parse(url)
    assert address.embedded
    assert address.display == "embedded"


@pytest.mark.parametrize(
    ("query", "dsn", "options"),
    [
        ("host=/var/run/postgresql", "?host=%2Fvar%2Frun%2Fpostgresql", ()),
        ("ssl=require", "?sslmode=require", ()),
        ("ssl=true", "?sslmode=require", ()),
        ("ssl=False", "?sslmode=disable", ()),
        ("sslmode=verify-full", "?sslmode=verify-full", ()),
        ("command_timeout=5", "", (("command_timeout", 5.0),)),
        ("statement_cache_size=0", "", (("statement_cache_size", 0),)),
        ("direct_tls=true", "", (("direct_tls", True),)),
        ("prepared_statement_cache_size=0", "", ()),
        ("application_name=a%20bot", "?application_name=a%20bot", ()),
        ("a=1&b=2", "?a=1&b=2", ()),
    ],
)
def test_options(query: str, dsn: str, options: tuple[tuple[str, object], ...]) -> None:
    address = parse(f"postgresql://u@h/d?{query}")
    assert address.dsn == f"postgresql://u@h/d{dsn}"
    assert address.options == options


def test_a_password_may_hold_its_own_at_sign() -> None:
    address = parse("postgresql://u:a@b@h:1,[::1]:2/d?application_name=a@b")
    assert address.dsn == "postgresql://u:a%40b@h:1,[::1]:2/d?application_name=a%40b"
    assert address.display.startswith("postgresql://u:***@h:1,[::1]:2/d")


@pytest.mark.parametrize("password", ["a/b", "12/b+c==", "a?b", "a#b", "a%2Fb/", "1#b", "1?b"])
def test_other_special_characters_of_a_password_are_asked_for_as_percents(password: str) -> None:
    with pytest.raises(ConfigurationError, match=r"@ as %40, / as %2F") as caught:
        parse(f"postgresql://u:{password}@h:1/d?application_name=a@b")
    assert password not in str(caught.value)


@pytest.mark.parametrize(
    "location",
    ["h:5432/d", "h:5432", "h1:1,h2:2/d", "[::1]:5432/d", "/d", "", "u@h:1/d", "%2Ftmp/d"],
)
def test_an_at_sign_in_an_option_is_no_password(location: str) -> None:
    dsn = parse(f"postgresql://{location}?user=a@b").dsn
    assert dsn == f"postgresql://{location}?user=a%40b"


@pytest.mark.parametrize(
    "location", ["h:port/d", "h:65536/d", "h:123456/d", "[::1/d", "h:1:2/d", "h1:1,h2:x/d"]
)
def test_hosts_that_cannot_be_read_are_refused_without_repeating_them(location: str) -> None:
    with pytest.raises(ConfigurationError, match="host and port") as caught:
        parse(f"postgresql://u:{PASSWORD}@{location}")
    assert location not in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@h1:1,h2:2/d",
        "postgresql://h1,[::1]:2/d?application_name=a",
        "postgresql:///d?host=h1,h2&port=1,2",
        "postgresql://u:a,b@h1,h2/d",
    ],
)
def test_of_several_hosts_the_one_that_takes_writes_is_wanted(url: str) -> None:
    address = parse(url)
    assert dict(address.options) == {"target_session_attrs": "read-write"}
    assert address.seeks_primary
    assert environment(address)["PGTARGETSESSIONATTRS"] == "read-write"


@pytest.mark.parametrize(
    ("stated", "seeks"),
    [("any", False), ("standby", False), ("prefer-standby", False), ("primary", True)],
)
def test_what_is_stated_of_several_hosts_wins(
    stated: str, seeks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = parse(f"postgresql://h1,h2/d?target_session_attrs={stated}")
    assert (address.options, address.seeks_primary) == ((), seeks)
    assert address.dsn.endswith(f"?target_session_attrs={stated}")
    monkeypatch.setenv("PGTARGETSESSIONATTRS", stated)
    address = parse("postgresql://h1,h2/d")
    assert (address.options, address.seeks_primary) == ((), seeks)


@pytest.mark.parametrize("url", ["postgresql://u:a,b@h/d", "postgresql:///d,e", "postgresql://h/d"])
def test_one_host_may_be_whatever_it_is(url: str) -> None:
    address = parse(url)
    assert (address.options, address.seeks_primary) == ((), False)


def test_several_hosts_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "h1,h2")
    assert parse("postgresql:///d").seeks_primary
    assert not parse("postgresql://h/d").seeks_primary


def test_a_message_names_all_hosts() -> None:
    url = f"postgresql://u:{PASSWORD}@h1:1,h2:2/d"
    assert Database(url).url == "postgresql://u:***@h1:1,h2:2/d"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:{}@h/d",
        "postgresql+psycopg2://u:{}@h/d",
        "sqlite+aiosqlite:///{}",
        "{}",
        "u:{}@h",
    ],
)
def test_other_drivers_and_garbage_are_refused_in_a_sentence(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"postgresql://user:password@host") as caught:
        parse(url.format(PASSWORD))
    assert PASSWORD not in str(caught.value)


def test_a_scheme_that_may_be_a_password_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(f"u:{PASSWORD}@h/d?x=://")
    assert PASSWORD not in str(caught.value)


def test_an_option_that_is_no_number_is_named() -> None:
    with pytest.raises(ConfigurationError, match="command_timeout='soon'"):
        parse("postgresql://h/d?command_timeout=soon")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{PASSWORD}@h/d",
        f"postgresql://u:{PASSWORD}@h/d?ssl=require",
        f"postgresql://u:with@{PASSWORD}@h/d",
        f"postgresql://u@h/d?password={PASSWORD}",
        f"postgresql://u@h/d?a=b&password={PASSWORD}",
    ],
)
def test_passwords_are_never_shown(url: str) -> None:
    address = parse(url)
    assert PASSWORD in address.dsn
    for text in (address.display, repr(address), repr(Database(url)), Database(url).url):
        assert PASSWORD not in text


@given(st.text(alphabet=st.characters(exclude_characters="\x00"), min_size=8))
def test_an_engines_password_is_never_shown(password: str) -> None:
    engine = create_async_engine("postgresql+asyncpg://u@h/d")
    engine.sync_engine.url = engine.url.set(password=password)
    assert Database(engine=engine).url == "postgresql+asyncpg://u:***@h/d"


def test_addresses_are_values() -> None:
    assert parse("postgresql://h/d") == parse("postgres://h/d")
    assert isinstance(parse("embedded"), Address)


async def test_no_setting_is_no_error_before_the_first_use() -> None:
    database = Database()
    assert repr(database) == "Database(<none is named>)"
    assert database.url == ""
    service = DatabaseSessionService(database)
    assert "<none is named>" in repr(service)
    with pytest.raises(ConfigurationError) as caught:
        await service.create_session(app_name="app", user_id="ana")
    assert "ADKPG_DATABASE_URL=" in str(caught.value)
    assert "Database('embedded')" in str(caught.value)


def test_a_server_of_agents_does_not_start_without_a_database() -> None:
    with pytest.raises(ConfigurationError, match="No database is named"):
        SessionService("adkpg://")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"'postgresql://u:{PASSWORD}@h/d'", "without quotes"),
        (f"jdbc:postgresql://u:{PASSWORD}@h/d", "postgresql://user:password@host/database"),
        (f"postgres//u:{PASSWORD}@h/d", "postgresql://user:password@host/database"),
        (f"postgresql+psycopg://u:{PASSWORD}@h/d", "not one that asyncpg"),
        (f"host=h user=u password={PASSWORD} dbname=d", "postgresql://user:password@host/database"),
        ("localhost", "embedded for the server"),
        (f"postgresql://u:p@{PASSWORD}/x@h/d", "@ as %40, / as %2F"),
        (f"postgresql://u:p@ss/{PASSWORD}%@h:5433/d", "@ as %40, / as %2F"),
        (f"postgresql://u:{PASSWORD}@${{PGHOST}}/d", "host and port"),
        (f"postgresql://u:{PASSWORD}@my host/d", "host and port"),
    ],
)
def test_what_is_nearly_a_url_is_refused_in_a_sentence(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(url)
    assert said in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("url", ["", " ", "adkpg:", "adkpg://"])
def test_an_empty_url_reads_the_setting(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", f"postgresql://u:{PASSWORD}@set/d")
    assert Database(url).url == "postgresql://u:***@set/d"


@pytest.mark.parametrize(
    "options", [{"url": "postgresql://h/d"}, {"password": "p"}, {"pool_size": 3}]
)
def test_an_engine_stands_alone(options: dict[str, object]) -> None:
    engine = create_async_engine("postgresql+asyncpg://u@h/d")
    with pytest.raises(ConfigurationError, match="give one"):
        Database(engine=engine, **options)  # type: ignore[arg-type] # any one of the arguments


def test_an_engine_on_another_driver_is_refused() -> None:
    engine = create_async_engine("postgresql+asyncpg://u@h/d")
    engine.dialect.driver = "psycopg"
    with pytest.raises(ConfigurationError, match=r"not on postgresql\+psycopg"):
        Database(engine=engine)


def test_options_of_libpq_that_managed_databases_hand_out() -> None:
    address = parse("postgresql://u@h/d?connect_timeout=5&channel_binding=prefer&sslmode=require")
    assert address.options == (("timeout", 5.0),)
    assert address.dsn == "postgresql://u@h/d?sslmode=require"
    with pytest.raises(ConfigurationError, match="take channel_binding=require out"):
        parse("postgresql://u@h/d?channel_binding=require")
