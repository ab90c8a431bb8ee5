"""Secrets in texts: keys, cards, tokens and passwords, by their form. Pure, linear in the length.

No expression here runs over a text twice: each begins at a border that its own characters cannot
repeat, or is bounded.
"""

import re
from collections.abc import Iterator
from itertools import chain

REDACTED = "[redacted]"
"""What is stored instead of a secret."""

_LONGEST_PIECE = 65_536
# Where lines or sentences end; no form of a secret but PEM goes on after it.
_BORDER = re.compile(r"\n|(?<=[a-z])[.!?] (?=[A-Z])|[\u3002\uff01\uff1f]")
_PREFIXES = (
    *("eyJ", "sk-", "sk_", "rk_", "pk_", "whsec_", "AKIA", "ASIA", "gho_", "ghp_", "ghs_", "ghu_"),
    *("ghr_", "github_pat_", "glpat-", "xox", "AIza", "ya29.", "hf_", "npm_", "pypi-", "SG."),
)
_NAMES = ("password", "passwd", "passphrase", "pwd", "key", "secret", "token")
_DIGIT = re.compile("[2-6]")
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
_NAMED = re.compile(
    r"(?i)(?<![a-z0-9])("
    r"(?:[a-z0-9]{1,32}[_-]){0,3}"
    r"(?:password|passwd|passphrase|pwd|(?:api|access|secret|private|account|encryption)[ _-]?key"
    r"|client[ _-]?secret|(?:access|auth|refresh|session|api|bot)[ _-]?token|(?:secret|token)(?==))"
    r"[\"']?[ \t]{0,4}[:=][ \t]{0,4})"
    r"(\"[^\"\n]{1,512}\"|'[^'\n]{1,512}'|[^\s\"',;]{4,}+)"
)
# Numbers of cards as they are written: in one, in groups, or digit by digit.
_CARDS = re.compile(
    r"(?<![0-9])(?:"
    r"[2-6][0-9]{12,18}"
    r"|[2-6][0-9]{3}([ \u00a0.-])[0-9]{4}\1[0-9]{4}\1[0-9]{1,4}(?:\1[0-9]{1,3})?"
    r"|3[0-9]{3}([ \u00a0.-])[0-9]{6}\2[0-9]{4,5}"
    r"|[2-6](?:[ -][0-9]){12,18}"
    r")(?![0-9])"
)
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
    ``AKIA``, ``ghp_`` …), numbers of cards (whose check digit is right), passwords in URLs, and
    what follows the name of a password, key or token: ``password: …``, ``"api_key": "…"``. A secret
    that is told in other words stays: no form tells that a word is a password.

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
    if any(name in lowered for name in _NAMES):
        text = _NAMED.sub(_without_value, text)
    return _CARDS.sub(_without_card, text) if _DIGIT.search(text) else text


def _without_value(match: re.Match[str]) -> str:
    quote = match[2][0] if match[2][0] in "\"'" else ""
    return f"{match[1]}{quote}{REDACTED}{quote}"


def _without_card(match: re.Match[str]) -> str:
    digits = re.sub("[^0-9]", "", match[0])
    return REDACTED if _ISSUED.fullmatch(digits) and _checks(digits) else match[0]


def _checks(digits: str) -> bool:
    """Luhn's check (ISO/IEC 7812-1, annex B)."""
    numbers = [int(digit) for digit in reversed(digits)]
    doubled = chain.from_iterable(divmod(2 * number, 10) for number in numbers[1::2])
    return (sum(numbers[::2]) + sum(doubled)) % 10 == 0
