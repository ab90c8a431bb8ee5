"""Any text for a database's address: it is read or refused, and its password is never repeated."""

import asyncio
from urllib.parse import quote

from hypothesis import example, given, settings
from hypothesis import strategies as st

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.adk import MemoryService, SessionService
from adkpg.database.address import parse
from adkpg.errors import AdkpgError, ConfigurationError

# Nothing that a URL is made of has it in it, so wherever it is found it is the password.
SECRET = "Zq7Zq7"
AT_ONCE = Settings(connect_timeout_s=1, retry_timeout_s=0)

_pieces = (
    st.sampled_from(
        ["://", ":", "@", "/", "?", "#", "&", "=", "%", "%zz", "%00", "[", "]", ",", ";", "\\", " "]
    )
    | st.sampled_from(
        [
            "postgresql",
            "postgres",
            "adkpg",
            "embedded",
            "sqlite",
            "http",
            "localhost",
            "5432",
            "99999",
        ]
    )
    | st.sampled_from(
        [
            "user",
            "password",
            "host",
            "port",
            "ssl",
            "sslmode",
            "require",
            "timeout",
            "command_timeout",
        ]
    )
    | st.sampled_from(
        [
            "channel_binding",
            "target_session_attrs",
            "é",
            "\x00",
            "\n",
            "\ud800",
            "1e400",
            "-1",
            "nan",
        ]
    )
)
_soup = st.lists(_pieces | st.text(max_size=3), max_size=14).map("".join)
_options = st.dictionaries(
    st.sampled_from(["ssl", "sslmode", "timeout", "connect_timeout", "port", "host", "x", "user"])
    | st.text(max_size=4),
    st.sampled_from(["require", "1", "-1", "nan", "1,2", "", "never"]) | st.text(max_size=4),
    max_size=3,
).map(lambda given: "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in given.items()))


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


@given(_soup, _soup)
@example("", "?\ud800")
def test_any_text_is_an_address_or_refused(before: str, after: str) -> None:
    for text in (before, f"postgresql://{before}", f"adkpg://{before}@localhost/{after}"):
        said = ""
        try:
            said = parse(text).display
        except ConfigurationError as exc:
            said = str(exc)
        assert said


@settings(max_examples=30)
@given(st.text(alphabet="aZ9@:/?#[]%& é", max_size=6), st.text("ab", min_size=1), _options)
def test_no_message_repeats_a_password(around: str, user: str, options: str) -> None:
    password = f"{around}{SECRET}{around}"
    for url in (
        f"postgresql://{user}:{password}@localhost/d?{options}",
        f"postgresql://{user}:{_quoted(password)}@localhost:5432/d?{options}",
        f"postgresql://{user}@localhost/d?{options}&password={_quoted(password)}",
        f"{user}:{password}@localhost/d",
        f"mysql://{user}:{password}@localhost/d",
        f"postgresql://{user}:{password}@local[host:port/d",
    ):
        for make in (Database, SessionService, MemoryService, DatabaseSessionService):
            try:
                made = make(url)
            except ConfigurationError as exc:
                said = str(exc)
            else:
                database = made if isinstance(made, Database) else made.database
                said = f"{made!r} {database!r} {database.url}"
            assert SECRET not in said, url


def test_what_the_driver_refuses_repeats_no_password() -> None:
    """Connecting to a port at which nobody listens ends at once, after all has been read."""
    with asyncio.Runner() as runner:

        @example("@][", "")  # asyncpg takes it for an IPv6 address, and says what is wrong with it
        @given(st.text(alphabet="aZ9@:/?#[]% é", max_size=6), _options)
        def run(around: str, options: str) -> None:
            password = f"{around}{SECRET}"
            url = f"postgresql://u:{password}@127.0.0.1:1/d?{options}&host=127.0.0.1&port=1"
            said: list[str] = []
            try:
                database = Database(url, settings=AT_ONCE)
                runner.run(database.current())
            except AdkpgError as exc:
                cause: BaseException | None = exc
                while cause is not None:
                    said += [str(cause), repr(cause)]
                    cause = cause.__cause__ or cause.__context__
            assert said
            assert SECRET not in " ".join(said)

        run()
