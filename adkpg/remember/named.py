"""What follows the name of a secret in a text. Pure, linear in the length.

A sign (``:``, ``=``) after a name tells that its value follows, and all of that goes. A word, or
nothing, tells less: "my password is safe" stays, and of "my password is hunter2" the one word goes
that holds a digit or a symbol. Names that mean something else, too, want that in any case.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge

from adkpg.text.normal_forms import nfc

REDACTED = "[redacted]"
"""What is stored instead of a secret."""


@dataclass(frozen=True)
class _Language:
    """How a language names secrets, in lower case.

    Attributes:
      names: That mean nothing else.
      vague: That mean something else, too.
      verbs: That may stand between a name and its value.
    """

    names: str
    vague: str = ""
    verbs: str = ""


LANGUAGES = {
    "en": _Language(
        "password, passwd, passphrase, passcode, pwd, api key, access key, secret key, "
        "private key, account key, encryption key, signing key, client secret, app secret, "
        "access token, auth token, refresh token, session token, api token, bot token",
        "pass, pw, pin, pin code, pin number",
        "is, was, to, ist, es, est, è, é, är, er",  # the same words are used in many languages
    ),
    "de": _Language(
        "passwort, kennwort, api schlüssel", "pin nummer, geheimzahl", "ist, war, lautet"
    ),
    "es": _Language("contraseña", "clave, clave api, clave de api", "es, era"),
    "fr": _Language("mot de passe", "clé api, clé d'api, code secret", "est, était"),
    "pt": _Language("senha, palavra passe", "chave api, chave de api", "é, era"),
    "it": _Language("parola d'ordine", "parola chiave, chiave api", "è, era"),
    "ca": _Language("contrasenya", "", "és"),
    "nl": _Language("wachtwoord", "pincode", "is, was"),
    "sv": _Language("lösenord, lösenordet", "pinkod", "är, var"),
    "da": _Language("adgangskode, adgangskoden, kodeord, kodeordet", "pinkode", "er, var"),
    "no": _Language("passord, passordet", "", "er, var"),
    "fi": _Language("salasana, salasanani", "", "on, oli"),
    "et": _Language("parool", "", "on"),
    "lv": _Language("", "parole", "ir"),
    "lt": _Language("slaptažodis", "", "yra"),
    "pl": _Language("hasło", "", "to, jest, brzmi"),
    "cs": _Language("heslo", "", "je, bylo, bolo"),  # and Slovak
    "sl": _Language("geslo", "", "je"),
    "hr": _Language("lozinka", "", "je"),
    "hu": _Language("jelszó, jelszavam", "", "az, a"),
    "ro": _Language("parolă", "parola", "este, e, è"),  # and Italian, Turkish
    "tr": _Language("şifre, şifrem, şifresi, şifreniz, şifremiz", "parolam"),
    "vi": _Language("mật khẩu", "", "là"),
    "id": _Language("kata sandi", "sandi", "adalah"),
    "ru": _Language("пароль, пароля", "пин, пин код", "это, це"),  # and Ukrainian
    "bg": _Language("парола, паролата", "", "е"),  # noqa: RUF001 - Cyrillic
    "sr": _Language("лозинка", "", "је"),  # noqa: RUF001 - Cyrillic
    "el": _Language("κωδικός πρόσβασης, συνθηματικό", "κωδικός", "είναι"),
    "ar": _Language("كلمة المرور, كلمة مرور, كلمة السر, كلمة سر", "الرقم السري", "هي, هو"),
    "fa": _Language("رمز عبور, گذرواژه", "رمز"),
    "he": _Language("סיסמה, סיסמא", "", "היא, הוא"),
    "hi": _Language("पासवर्ड, कूटशब्द"),
    "th": _Language("รหัสผ่าน", "", "คือ"),
    "zh": _Language("密码, 密碼, 口令", "密钥, 密鑰", "是, 为, 為"),
    "ja": _Language("パスワード, 暗証番号", "apiキー", "は"),
    "ko": _Language("비밀번호, 패스워드", "암호, api 키", "는, 은, 가, 이"),
}
"""How secrets are named, by language."""

# These stand in texts without spaces between words, where a value is of ASCII.
_UNSPACED = frozenset({"zh", "ja", "ko", "th"})
_SPACE = r"[ \t\u00a0\u3000]"
_SIGN = rf"{_SPACE}{{0,4}}(?::=|=>|->|[:=：＝﹕])[*_]{{0,2}}{_SPACE}{{0,4}}"  # noqa: RUF001 - full width
_AFTER_NAME = r"(?:[_-]?\d{1,3})?[\\\"'`*_)\]]{0,4}"
_MOST = 512  # characters of a quoted value
_LOOKED_AT = 64  # of one that is not, to tell whether it is one
_STOPS = r"\s\"'`,;，；。、！？»”」』"  # noqa: RUF001 - scripts' own marks
_WORD = re.compile(rf"[^{_STOPS}]{{1,{_LOOKED_AT}}}+")
_REST = re.compile(rf"[^{_STOPS}]*+")
_ASCII_WORD = re.compile(rf"[!#-&(-+\--:<-_a-~]{{1,{_LOOKED_AT}}}+")
_ASCII_REST = re.compile(r"[!#-&(-+\--:<-_a-~]*+")
_CLOSED_BY = dict(zip("\"'`“„‘«‹「『", "\"'`”“’»›」』", strict=True))  # noqa: RUF001 - scripts' own
_QUOTED = {
    opening: re.compile(
        rf"[^{closing}\\\n]{{0,{_MOST}}}+(?:\\.[^{closing}\\\n]{{0,128}}+){{0,16}}+(?={closing})"
    )
    for opening, closing in _CLOSED_BY.items()
}
_ESCAPED_QUOTE = re.compile(r"(\\{1,7})([\"'])")
_TELLING = re.compile(r"(?!.*://).*(?:\d|[#$%^&+=~!].)", re.DOTALL)
_NEEDED = re.compile(r"[\d:=：＝﹕>#$%^&+~]|!\S")  # noqa: RUF001 - a sign, or what tells a value
_MIXED = re.compile(r"(?=.*\d)(?=.*[^\W\d_])", re.DOTALL)
_LEAST = 4  # characters of a value that is not quoted
_SIGNED = frozenset({"pass"})  # a mountain's may be 2,000 m high
_NO_VALUES = frozenset({"null", "none", "true", "false"})


def _spelled(words: str) -> Iterator[str]:
    """The words, also decomposed, and those in Latin script without their marks."""
    for word in filter(None, words.split(", ")):
        decomposed = unicodedata.normalize("NFD", word)  # noqa: TID251 - a word of ours
        yield from {nfc(word), decomposed}
        plain = re.sub("[\u0300-\u036f]", "", decomposed).replace("ł", "l")
        if plain.isascii():
            yield plain


def _expression(word: str) -> str:
    return re.escape(word).replace(r"\ ", "[ _-]?").replace("'", "['’_ -]?")  # noqa: RUF001 - as typed


def _one_of(words: str) -> str:
    """An expression for any of some words, the longer ones first."""
    found = sorted(set(_spelled(words)), key=lambda word: (-len(word), word))
    return "|".join(map(_expression, found))


def _follows(code: str) -> re.Pattern[str]:
    """What may stand between a name and its value: the group tells which of the three."""
    verbs = _one_of(LANGUAGES[code].verbs)
    if code in _UNSPACED and verbs:
        said, verb = rf"{_SPACE}?(?:{verbs})", rf"{_SPACE}?(?:{verbs}){_SPACE}?"
    else:
        verbs = f"{verbs}|" if verbs else ""
        said = rf"{_SPACE}{{1,4}}(?:{verbs.rstrip('|')})" if verbs else ""
        verb = rf"{_SPACE}{{1,4}}(?:{verbs}[–—-]){_SPACE}{{1,4}}"  # noqa: RUF001 - dashes
    before = f"(?:{said})?" if said else ""
    return re.compile(
        rf"{_AFTER_NAME}(?:(?P<sign>{before}{_SIGN})|(?P<verb>{verb})|(?P<nothing>{_SPACE}{{1,4}}))"
    )


_FOLLOWS = {code: _follows(code) for code in LANGUAGES}


@dataclass(frozen=True)
class _Stem:
    """Names that begin alike.

    Attributes:
      names: An expression with a group for each; those that mean one thing come first.
      codes: The language of each, and whether it is vague.
    """

    names: re.Pattern[str]
    codes: tuple[tuple[str, bool], ...]


def _stems() -> dict[str, _Stem]:
    """The names by what they begin with: looking for that takes less time than an expression."""
    known: dict[str, tuple[str, bool]] = {}
    for vague in (False, True):
        for code, language in LANGUAGES.items():
            words = language.vague if vague else language.names
            for word in sorted(set(_spelled(words)), key=lambda word: (-len(word), word)):
                known.setdefault(word, (code, vague))
        if not vague:
            known |= dict.fromkeys(_ASSIGNED, ("en", False))
    begun: dict[str, list[str]] = {}
    for word in sorted(known, key=lambda word: len(_beginning(word))):
        beginning = _beginning(word)
        shorter = next((each for each in begun if beginning.startswith(each)), beginning)
        begun.setdefault(shorter, []).append(word)
    order = list(known)
    found = {}
    for beginning, words_ in begun.items():
        together = sorted(words_, key=order.index)
        names = "|".join(f"({_ASSIGNED.get(word) or _expression(word)})" for word in together)
        found[beginning] = _Stem(re.compile(names), tuple(known[word] for word in together))
    return found


def _beginning(word: str) -> str:
    return re.split("[ '=]", word)[0][:_LONGEST_STEM]


_LONGEST_STEM = 6
# NAME=value, where a colon would be prose.
_ASSIGNED = {
    "secret=": "secret(?==)",
    "token=": "token(?==)",
    "pass=": "(?<=_)pass(?==)",
    "pw=": "(?<=_)pw(?==)",
}
_STEMS = _stems()
_ASCII_STEMS = tuple(filter(str.isascii, _STEMS))


def without_named(text: str) -> str:
    """Returns a text in which ``[redacted]`` stands for each value of a named secret."""
    if not _NEEDED.search(text):
        return text
    lowered = text.lower()
    stems = _ASCII_STEMS if lowered.isascii() else _STEMS
    found = [stem for stem in stems if stem in lowered]
    if not found:
        return text
    if len(lowered) != len(text):  # one letter became two
        lowered = "".join(each.lower() if len(each.lower()) == 1 else each for each in text)
    kept: list[str] = []
    start = position = 0
    for place, beginning in merge(*(_places(lowered, stem) for stem in found)):
        stem = _STEMS[beginning]
        name = stem.names.match(lowered, place) if place >= position else None
        if name is None or name.lastindex is None:
            continue
        position = name.end()
        code, vague = stem.codes[name.lastindex - 1]
        if vague and _within_a_word(text, place):
            continue
        value = _value(text, lowered, name, code, vague=vague)
        if value is not None:
            begin, end = value
            kept += text[start:begin], REDACTED
            start = position = end
    return "".join([*kept, text[start:]]) if kept else text


def _places(text: str, word: str) -> Iterator[tuple[int, str]]:
    place = text.find(word)
    while place >= 0:
        yield place, word
        place = text.find(word, place + 1)


def _value(
    text: str, lowered: str, name: re.Match[str], code: str, *, vague: bool
) -> tuple[int, int] | None:
    """Where the value of a secret begins and ends; None if there is none."""
    follows = _FOLLOWS[code].match(lowered, name.end())
    if follows is None or (follows["sign"] is None and name[0] in _SIGNED):
        return None
    begin, end = _quoted(text, follows.end())
    rest = None
    if begin == end:
        first, rest = (_ASCII_WORD, _ASCII_REST) if code in _UNSPACED else (_WORD, _REST)
        word = first.match(text, begin)
        end = begin + len(_unclosed(word[0])) if word else begin
    value = text[begin:end]
    if (
        value in {"", REDACTED}
        or (rest and len(value) < _LEAST)
        or value.lower() in _NO_VALUES
        or (follows["nothing"] is not None and not _MIXED.match(value[:_LOOKED_AT]))
        or ((vague or follows["sign"] is None) and not _TELLING.match(value[:_LOOKED_AT]))
    ):
        return None
    if rest and end - begin == _LOOKED_AT:
        longer = rest.match(text, end)
        end = longer.end() if longer else end
    return begin, end


def _within_a_word(text: str, place: int) -> bool:
    """Whether a letter stands before a place, other than before the hump of a camel."""
    before = text[place - 1 : place] if place else ""
    return before.isalpha() and not (before.islower() and text[place].isupper())


def _quoted(text: str, begin: int) -> tuple[int, int]:
    """Where a value in quotes begins and ends; without an end, both are where a word may begin."""
    escaped = _ESCAPED_QUOTE.match(text, begin)
    if escaped:  # JSON within a string
        begin = escaped.end()
        closing = re.compile(rf"(?<!\\)\\{{{len(escaped[1])}}}{escaped[2]}")
        closed = closing.search(text, begin, begin + _MOST)
        return begin, closed.start() if closed else begin
    if text[begin : begin + 1] not in _QUOTED:
        return begin, begin
    quoted = _QUOTED[text[begin]].match(text, begin + 1)
    return begin + 1, quoted.end() if quoted else begin + 1


def _unclosed(word: str) -> str:
    """A word without the brackets that were opened before it, as around ``{pin: 4711}``."""
    said = word.removeprefix(REDACTED)
    opened = any(opening in said for opening in "([{")
    return word[: len(word) - len(said)] + (said if opened else said.rstrip(")]}"))
