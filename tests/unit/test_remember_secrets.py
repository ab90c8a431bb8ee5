"""What the default redactor takes out of texts, and what it leaves."""

import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from adkpg import redact_secrets
from adkpg.remember.secrets import REDACTED

_ALNUM = string.ascii_letters + string.digits
_KEY = f"{_ALNUM}_-"


def letters(alphabet: str, least: int, most: int | None = None) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=most or least + 40)


def with_check_digit(digits: str) -> str:
    for last in "0123456789":
        doubled = [
            sum(divmod(int(digit) * (1 + place % 2), 10))
            for place, digit in enumerate(reversed(digits + last))
        ]
        if sum(doubled) % 10 == 0:
            return digits + last
    raise AssertionError(digits)


def grouped(number: str, how: str) -> str:
    match how:
        case "digits":
            return " ".join(number)
        case "":
            return number
        case _:
            groups = [number[at : at + 4] for at in range(0, len(number), 4)]
            return how.join(groups)


VISA = st.builds(
    lambda rest, how: grouped(with_check_digit(f"4{rest}"), how),
    letters(string.digits, 14, 14),
    st.sampled_from(["", " ", "-", "digits"]),
)
AMEX = letters(string.digits, 12, 12).map(lambda rest: with_check_digit(f"37{rest}"))
PEM = letters(f"{_ALNUM}+/=\n", 20, 200).map(
    lambda body: f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
)
TOKENS = [
    VISA,
    AMEX,
    AMEX.map(lambda number: f"{number[:4]} {number[4:10]} {number[10:]}"),
    PEM,
    *(
        letters(alphabet, least).map(lambda rest, prefix=prefix: f"{prefix}{rest}")  # type: ignore[misc] # a lambda's default is not inferred
        for prefix, alphabet, least in (
            ("sk-", _KEY, 20),
            ("sk-proj-", _KEY, 20),
            ("sk_live_", _ALNUM, 24),
            ("ghp_", _ALNUM, 36),
            ("github_pat_", f"{_ALNUM}_", 22),
            ("glpat-", _KEY, 20),
            ("xoxb-", _KEY, 20),
            ("AIza", _KEY, 35),
            ("hf_", _ALNUM, 34),
        )
    ),
    letters(string.ascii_uppercase + string.digits, 16, 16).map(lambda rest: f"AKIA{rest}"),
    st.builds(
        lambda head, body, sign: f"eyJ{head}.{body}.{sign}",
        letters(_KEY, 10),
        letters(_KEY, 10),
        letters(_KEY, 10),
    ),
]
NAMED = [
    ("https://ana:{}@db.example.com/x", letters(f"{_ALNUM}_.~!$", 6)),
    ("Authorization: Bearer {}", letters(f"{_ALNUM}._~+/-", 20).map(lambda each: f"{each}7")),
    ("password: {}", letters(f"{_ALNUM}!#$%_", 6)),
    ('{{"api_key": "{}"}}', letters(f"{_ALNUM} _-", 6)),
    ("OPENAI_API_KEY={}", letters(_ALNUM, 12)),
    ("client secret = {}", letters(_ALNUM, 12)),
]
AROUND = st.text(st.characters(codec="utf-8"), max_size=40)


@given(st.data())
def test_secrets_of_every_kind_go_wherever_they_stand(data: st.DataObject) -> None:
    parts = [data.draw(AROUND)]
    secrets = []
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            secret = data.draw(st.one_of(TOKENS))
            told = secret
        else:
            frame, kind = data.draw(st.sampled_from(NAMED))
            secret = data.draw(kind)
            told = frame.format(secret)
        secrets.append(secret)
        parts += [f"\n{told}\n", data.draw(AROUND)]
    assume(not any(secret in "".join(parts[::2]) for secret in secrets))
    redacted = redact_secrets("".join(parts))
    assert all(secret not in redacted for secret in secrets)
    assert redact_secrets(redacted) == redacted


@given(st.text())
def test_any_text_is_taken_and_the_answer_is_final(text: str) -> None:
    redacted = redact_secrets(text)
    assert redact_secrets(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "My bike is in the shed; the code of the lock is 4711.",
        "Order 4111 1111 1111 1112 is not a card: its check digit is wrong.",
        "Call me at +49 30 901820, or on 2026-11-22 2026-11-23 14:59:08.",
        "The bearer of the good news took the token; my password is in the safe.",
        "https://example.com:8080/a@b and mail ana@example.com",
        "risk-averse task-oriented sk-8 desk-lamps",
        "The key: bake it slowly. Secret: more butter.",
        "Parcel 00340434161094042557, IMEI 490154203237517 0, 1234567890123",
        "password: no",
        "",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redact_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pay with 4111 1111 1111 1111 now", f"pay with {REDACTED} now"),
        ("postgres://ana:s3cr%40t@db/x", f"postgres://ana:{REDACTED}@db/x"),
        ("password=hunter2; next", f"password={REDACTED}; next"),
        ('{"apiKey": "a b c"}', f'{{"apiKey": "{REDACTED}"}}'),
        ("curl -H 'Authorization: Bearer abcdefgh12345678ij'", None),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut short", REDACTED),
    ],
)
def test_what_stands_around_a_secret_stays(text: str, expected: str | None) -> None:
    assert redact_secrets(text) == (expected or f"curl -H 'Authorization: Bearer {REDACTED}'")


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "eyJ", "eyJaaaaaaaa.", "4", "4 ", "4111 ", "://", "://a:", '"', "password:'"),
        *("-----BEGIN PRIVATE KEY-----", "password", "a_", "a-key", "api_key=", "bearer "),
        *("sk-", "sk", "SG.aaaaaaaaaa."),
    ],
)
def test_a_hostile_text_takes_no_longer_than_another(unit: str) -> None:
    """A quadratic expression would run into the suite's own time limit: 2 MB squared."""
    text = unit * (2_000_000 // len(unit))
    assert "hunter2" not in redact_secrets(f"{text} password=hunter2")
