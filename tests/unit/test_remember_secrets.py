"""What the default redactor takes out of texts, and what it leaves."""

import string
import unicodedata
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from adkpg import redact_secrets
from adkpg.remember.named import LANGUAGES, REDACTED

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
        "My password is safe, is well-known and was changed. Is the password to be kept?",
        "The pass is 2,000m high; compass: 12345, passport: A1234567, spinning: 4711",
        "Reset password to ana@example.com or https://example.com/a?b=1, 8 characters at least.",
        '{"password": null, "pin": none}',
        "DE89 3704 0044 0532 0130 01 is no IBAN: its check digits are wrong.",
        "密码是什么？请输入密码：",  # noqa: RUF001 - full width
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
        ('{"password": "a\\"b c", "x": "y"}', f'{{"password": "{REDACTED}", "x": "y"}}'),
        (r"{\"password\": \"a\\\"b c\", \"x\": 1}", rf"{{\"password\": \"{REDACTED}\", \"x\": 1}}"),
        ('{"user": {"pin": 4711}}', f'{{"user": {{"pin": {REDACTED}}}}}'),
        ('password: "hunter2 is not closed', f'password: "{REDACTED} is not closed'),
        ("password: [redacted] stays", "password: [redacted] stays"),
        ("**Password:** `hunter2` and", f"**Password:** `{REDACTED}` and"),
        ("IBAN DE89 3704 0044 0532 0130 00 BIC X", f"IBAN {REDACTED} BIC X"),
        ("GB82WEST12345698765432.", f"{REDACTED}."),
        ("4111\u20111111\u20111111\u20111111", REDACTED),
        ("\uff14" + "\uff11" * 15, REDACTED),
        ("1234 4111 1111 1111 1111", f"1234 {REDACTED}"),
        ("密码是hunter2，谢谢", f"密码是{REDACTED}，谢谢"),  # noqa: RUF001 - full width
        ("पासवर्ड hunter2 है", f"पासवर्ड {REDACTED} है"),
    ],
)
def test_what_stands_around_a_secret_stays(text: str, expected: str | None) -> None:
    assert redact_secrets(text) == (expected or f"curl -H 'Authorization: Bearer {REDACTED}'")


SAID_IN = {
    "en": (
        "My password is hunter2",
        "the wifi password: hunter2",
        "api key is hunter2",
        "pw: hunter2",
    ),
    "de": ("Passwort: hunter2", "Mein Kennwort lautet hunter2", "WLAN-Passwort ist: hunter2"),
    "es": ("contraseña: hunter2", "La contrasena es hunter2", "clave: hunter2"),
    "fr": ("mot de passe : hunter2", "Le mot de passe est hunter2", "motDePasse=hunter2"),
    "pt": ("senha: hunter2", "A senha é hunter2", "palavra-passe: hunter2"),
    "it": ("La password è hunter2", "parola d'ordine: hunter2", "parola: hunter2"),
    "ca": ("contrasenya: hunter2",),
    "nl": ("wachtwoord: hunter2", "Het wachtwoord is hunter2"),
    "sv": ("Lösenord: hunter2", "Lösenordet är hunter2"),
    "da": ("Adgangskoden er hunter2", "kodeord: hunter2"),
    "no": ("Passordet er hunter2",),
    "fi": ("Salasana on hunter2",),
    "et": ("Parool: hunter2",),
    "lv": ("Parole: hunter2",),
    "lt": ("slaptažodis: hunter2",),
    "pl": ("Hasło: hunter2", "haslo to hunter2"),
    "cs": ("Heslo je hunter2",),
    "sl": ("geslo: hunter2",),
    "hr": ("Lozinka: hunter2",),
    "hu": ("Jelszó: hunter2",),
    "ro": ("parolă: hunter2", "Parola este hunter2"),
    "tr": ("Şifre: hunter2", "Şifrem hunter2", "parola: hunter2"),
    "vi": ("Mật khẩu là hunter2",),
    "id": ("kata sandi: hunter2",),
    "ru": ("Пароль: hunter2", "пароль — hunter2"),
    "bg": ("паролата е hunter2",),  # noqa: RUF001 - Cyrillic
    "sr": ("лозинка: hunter2",),
    "el": ("κωδικός πρόσβασης: hunter2", "κωδικός είναι hunter2"),
    "ar": ("كلمة المرور: hunter2", "كلمة السر هي hunter2"),
    "fa": ("رمز عبور: hunter2",),
    "he": ("סיסמה: hunter2", "הסיסמה היא hunter2"),
    "hi": ("पासवर्ड: hunter2",),
    "th": ("รหัสผ่าน: hunter2", "รหัสผ่านคือhunter2"),
    "zh": ("密码：hunter2", "密碼是hunter2", "口令：hunter2"),  # noqa: RUF001 - full width
    "ja": ("パスワード：hunter2", "パスワードはhunter2です"),  # noqa: RUF001 - full width
    "ko": ("비밀번호: hunter2", "비밀번호는 hunter2"),
}


def test_each_language_of_the_table_is_tried() -> None:
    assert SAID_IN.keys() == LANGUAGES.keys()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    "text", [text for texts in SAID_IN.values() for text in texts], ids=lambda text: text
)
def test_passwords_go_in_the_languages_that_people_write(text: str, form: Any) -> None:
    text = unicodedata.normalize(form, text)  # noqa: TID251 - a text of ours
    for each in (text, text.upper().replace("HUNTER2", "hunter2"), text.replace(":", "\uff1a")):
        redacted = redact_secrets(each)
        assert "hunter2" not in redacted
        assert redact_secrets(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        *("PGPASSWORD=hunter2", "DB_PASS=hunter2", "MYSQL_PWD=hunter2", "dbPass: hunter2"),
        *("secretKey=hunter2", "clientSecret: hunter2", "AWS_SECRET_ACCESS_KEY = hunter2"),
        *(
            "password1: hunter2",
            "user.password => 'hunter2'",
            "--password hunter2",
            "pass: hunter2",
        ),
        *("password\uff1dhunter2", "I changed the password to hunter2", "password := hunter2"),
        *("My password is: hunter2", "password: [redacted]hunter2", "PIN: hunter2"),
        *("pass: hunter2", "pw: hunter2", "pw hunter2"),
        "password: 4111111111111111hunter2",
        'password: "4111 1111 1111 1111 hunter2"',
    ],
)
def test_names_of_any_spelling_are_known(text: str) -> None:
    redacted = redact_secrets(text)
    assert "hunter2" not in redacted
    assert redact_secrets(redacted) == redacted


def test_pins_go() -> None:
    for text in ("My PIN is 4711", "PIN: 4711", "pin=4711", "PIN-Code: 4711", "Meine PIN ist 4711"):
        assert "4711" not in redact_secrets(text)


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "eyJ", "eyJaaaaaaaa.", "4", "4 ", "4111 ", "://", "://a:", '"', "password:'"),
        *("-----BEGIN PRIVATE KEY-----", "password", "a_", "a-key", "api_key=", "bearer "),
        *("sk-", "sk", "SG.aaaaaaaaaa."),
        *(
            "pass:",
            "pw",
            "password:“",
            'password:\\"',
            "密码:“",
            "pass:[redacted]",
            "pin is ",
            "İpw:",
        ),
        *("GB82", "GB82 ", "GB82WEST12345698765432", "\uff14", "4\u2011", "password is a"),
    ],
)
def test_a_hostile_text_takes_no_longer_than_another(unit: str) -> None:
    """A quadratic expression would run into the suite's own time limit: 2 MB squared."""
    text = unit * (2_000_000 // len(unit))
    assert "hunter2" not in redact_secrets(f"{text} password=hunter2")
