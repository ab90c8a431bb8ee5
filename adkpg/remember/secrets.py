"""Secrets in texts: keys, cards, tokens and passwords, by their form. Pure, linear in the length.

No expression here runs over a text twice: each begins at a border that its own characters cannot
repeat, or is bounded. What follows the name of a secret is `adkpg.remember.named`'s.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain

from adkpg.remember.named import REDACTED, without_named

_LONGEST_PIECE = 65_536
_MOST_PASSES = 4
# Where lines or sentences end; no form of a secret but PEM goes on after it.
_BORDER = re.compile(r"\n|(?<=[a-z])[.!?] (?=[A-Z])|[\u3002\uff01\uff1f]")
_PREFIXES = (
    *("eyJ", "sk-", "sk_", "rk_", "pk_", "whsec_", "AKIA", "ASIA", "gho_", "ghp_", "ghs_", "ghu_"),
    *("ghr_", "github_pat_", "glpat-", "xox", "AIza", "ya29.", "hf_", "npm_", "pypi-", "SG."),
)
_DIGIT = re.compile(r"\d")
_KEY = "A-Za-z0-9_-"
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_TOKENS = re.compile(
    rf"(?<![{_KEY}])(?:"
    rf"eyJ[{_KEY}]{{6,}}+\.[{_KEY}]{{6,}}+(?:\.[{_KEY}]*+){{0,3}}"  # JWT, JWE
    rf"|sk-[{_KEY}]{{16,}}"  # OpenAI, Anthropic
    r"|(?:sk|rk|pk|whsec)_[A-Za-z0-9_]{16,}"  # Stripe
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}[A-Za-z0-9]*+"  # AWS
    r"|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    rf"|glpat-[{_KEY}]{{20,}}"
    rf"|xox[a-z]-[{_KEY}]{{10,}}"  # Slack
    rf"|AIza[{_KEY}]{{30,}}|ya29\.[{_KEY}]{{20,}}"  # Google
    r"|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,}"
    rf"|pypi-[{_KEY}]{{20,}}"
    rf"|SG\.[{_KEY}]{{10,}}+\.[{_KEY}]{{10,}}"  # SendGrid
    ")"
)
_BEARER = re.compile(r"(?i)\b(bearer[ \t]{1,4})(?=[a-z0-9._~+/-]{0,64}[0-9])[a-z0-9._~+/-]{16,}+=*")
_AUTHORIZATION = re.compile(
    r"(?i)\b(authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?basic[ \t]{1,4})[a-z0-9+/=]{4,}"
)
_URL_PASSWORD = re.compile(r"(://[^\s:/@]{0,256}:)[^\s/]{1,256}(?=@)")
# Numbers as they are written: in one, in groups, or digit by digit; in the digits of any script.
_GAP = r"[ \u00a0\u2009\u202f\u3000.\u2010-\u2015\u2212\ufe63\uff0d-]"
# Each begins with what it looks for, and then looks back: so all else is passed over quickly.
_CARD = re.compile(
    r"\d(?<!\d\d)(?:"
    r"\d{12,18}"
    rf"|\d{{3}}({_GAP})\d{{4}}\1\d{{4}}\1\d{{1,4}}(?:\1\d{{1,3}})?"
    rf"|(?<=3)\d{{3}}({_GAP})\d{{6}}\2\d{{4,5}}"
    rf"|(?:{_GAP}\d){{12,18}}"
    r")(?!\d)"
)
_IBAN = re.compile(rf"[A-Z](?<![A-Za-z0-9].)[A-Z]\d\d(?:{_GAP}?[A-Z0-9]){{11,30}}+")
# https://www.swift.com/standards/data-standards/iban: the length by country.
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}
_ISSUED = re.compile(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})"  # Visa
    r"|(?:5[1-5][0-9]{2}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|3[47][0-9]{13}"  # American Express
    r"|3(?:0[0-5]|[689][0-9])[0-9]{11,16}"  # Diners Club
    r"|(?:35|50|5[6-9]|6[0-9])[0-9]{11,17}"  # JCB, Maestro, Discover, UnionPay
)


def redact_secrets(text: str) -> str:
    """Returns a text without the secrets that are told by their form; ``[redacted]`` stands there.

    Private keys in PEM, tokens (JWT, bearer, and those that begin as their issuer's do: ``sk-``,
    ``AKIA``, ``ghp_`` …), numbers of cards and IBANs (whose check digits are right), and passwords
    in URLs. Also the word after the name of a password, PIN, key or token in 38 languages:
    ``password: …``, ``"api_key": "…"``, ``Mein Passwort ist hunter2``. In a sentence without a
    colon it must hold a digit or a symbol: no form tells that a word is a password.

    Linear in the text's length. What it returns, it returns unchanged.
    """
    return "".join(map(_redacted, _pieces(_PEM.sub(REDACTED, text))))


def _pieces(text: str) -> Iterator[str]:
    """Cuts a long text where no secret is cut, so that other threads have their turn between."""
    start = 0
    while len(text) - start > _LONGEST_PIECE:
        border = _BORDER.search(text, start + _LONGEST_PIECE // 2, start + _LONGEST_PIECE)
        end = border.end() if border else len(text)
        yield text[start:end]
        start = end
    yield text[start:]


def _redacted(text: str) -> str:
    for _ in range(_MOST_PASSES):  # what goes may be what another secret was hidden behind
        found = _once(text)
        if found == text:
            break
        text = found
    return text


def _once(text: str) -> str:
    # Looking for what each begins with takes a fraction of the expressions' time.
    lowered = text.lower()
    if "://" in text:
        text = _URL_PASSWORD.sub(rf"\1{REDACTED}", text)
    if "authorization" in lowered:
        text = _AUTHORIZATION.sub(rf"\1{REDACTED}", text)
    if "bearer" in lowered:
        text = _BEARER.sub(rf"\1{REDACTED}", text)
    if any(prefix in text for prefix in _PREFIXES):
        text = _TOKENS.sub(REDACTED, text)
    if _DIGIT.search(text):
        text = _without(text, _CARD, _end_of_card)
        text = _without(text, _IBAN, _end_of_iban)
    return without_named(text)


def _without(
    text: str, pattern: re.Pattern[str], end_of: Callable[[re.Match[str]], int | None]
) -> str:
    """Returns a text without what matches, up to where `end_of` says; None keeps it."""
    kept: list[str] = []
    start = position = 0
    while match := pattern.search(text, position):
        end = end_of(match)
        position = match.start() + 1
        if end is not None:
            kept += text[start : match.start()], REDACTED
            start = position = end
    return "".join([*kept, text[start:]]) if kept else text


def _end_of_card(match: re.Match[str]) -> int | None:
    digits = re.sub(r"\D", "", match[0])
    if not digits.isascii():
        digits = "".join(str(int(each)) for each in digits)
    return match.end() if _ISSUED.fullmatch(digits) and _checks(digits) else None


def _end_of_iban(match: re.Match[str]) -> int | None:
    """Where as many letters and digits end as its country's have, if their check is right."""
    length = _IBAN_LENGTHS.get(match[0][:2], 0)
    places = [place for place, each in enumerate(match[0]) if each.isalnum()][:length]
    if not length or len(places) < length:
        return None
    end = match.start() + places[-1] + 1
    number = "".join(match[0][place] for place in [*places[4:], *places[:4]])
    whole = not match.string[end : end + 1].isalnum()
    return end if whole and int("".join(str(int(each, 36)) for each in number)) % 97 == 1 else None


def _checks(digits: str) -> bool:
    """Luhn's check (ISO/IEC 7812-1, annex B)."""
    numbers = [int(digit) for digit in reversed(digits)]
    doubled = chain.from_iterable(divmod(2 * number, 10) for number in numbers[1::2])
    return (sum(numbers[::2]) + sum(doubled)) % 10 == 0
