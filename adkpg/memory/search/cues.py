"""Cues: what a question says besides its words: when, who said it, and whether it asks. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from adkpg.memory.search.times import NO_TIMES, Times, told_times

Speaker = Literal["user", "others"]

_LOOKED_AT = 2_000  # characters
_LEAST_SAID = 3  # words, or characters of a script without spaces, that state something

# Scripts without spaces, of which `searchable` makes some three words where others have one.
_UNSPACED = re.compile("[\u0e01-\u0eff\u1000-\u109f\u1780-\u17d3\u3040-\u30ff\u3400-\u9fff]")
_ASKING = re.compile("[?\uff1f\u061f]")
_SENTENCES = re.compile("[^.!?\uff0e\uff01\uff1f\u061f。;；\n]+[.!?\uff01\uff1f\u061f。;；\n]*")
_SAID = (
    r"(?:recommend|suggest|tell|told|said|say|advis|g[ai]ve|mention|propos|explain|list|describ"
    r"|sen[dt])"
)
_OF_OTHERS = re.compile(
    rf"\byou\s+(?:\w+\s+){{0,2}}{_SAID}\w*"
    r"|\byour\s+(?:recommendation|suggestion|advice|answer|explanation|list|plan|idea)"
    r"|(?:你|您).{0,8}?(?:推荐|推薦|建议|建議|告诉|告訴|说过|說過|提到|介绍|介紹|给过)"
    r"|\b(?:hast\s+du|haben\s+sie)\s.*(?:empfohlen|vorgeschlagen|gesagt|erzählt|geraten)"
    r"|\b(?:as-tu|avez-vous|tu\s+m'as|vous\s+m'avez)\s*(?:\w+\s+){0,2}"
    r"(?:recommandé|suggéré|dit|conseillé|proposé)"
    r"|\b(?:me\s+)(?:recomendaste|sugeriste|dijiste|aconsejaste|propusiste)"
    r"|\b(?:mi\s+hai)\s+(?:consigliato|suggerito|detto|proposto)"
    r"|\bvocê\s+(?:me\s+)?(?:recomendou|sugeriu|disse|aconselhou)"
    r"|\b(?:ты|вы)\s+(?:\w+\s+){0,2}(?:рекомендовал|советовал|посоветовал|говорил|сказал|предлагал|предложил)",
    re.IGNORECASE,
)
_OF_USER = re.compile(
    r"\b(?:I|I'm|I've|my|mine|me|myself)\b|\b[Mm]y\b|我|俺|私|僕|나는|내가|제가|저는"
    r"|\b(?:ich|mein|meine[nmrs]?|mir|mich)\b|\b(?:je|j'ai|mon|ma|mes|moi)\b"
    r"|\b(?:yo|mis?|conmigo)\b|\b(?:io|mio|mia|miei)\b|\b(?:eu|meu|minha)\b"
    r"|\b(?:я|мой|моя|моё|мои|меня|мне|моей|моего)\b|\b(?:ik|mijn)\b",
)

_DATE_WORDS = re.compile(
    "[0-9]|(?<![a-z])(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE
)


@dataclass(frozen=True)
class Cues:
    """What a question says besides its words.

    Attributes:
      times: When what it asks for was said or happened.
      speaker: Whose words it asks for: the user's own, or those of the others, the agents; None if
        it does not say.
      asks: Whether all of it is questions. A message that states something is searched with too,
        by tools that recall before a turn, and what answers it is of the same theme, no more.
      wordiness: How many times as many words a text has, in the index, as one in English that says
        as much.
    """

    times: Times = NO_TIMES
    speaker: Speaker | None = None
    asks: bool = True
    wordiness: float = 1.0


def has_date_words(words: str) -> bool:
    """Returns whether a question's words may be in a date that is written out in English."""
    return _DATE_WORDS.search(words) is not None


def cues_of(question: str, now: datetime) -> Cues:
    """Reads a question.

    Args:
      question: Any text.
      now: The clock that "yesterday" counts from.
    """
    text = question[:_LOOKED_AT]
    return Cues(
        times=told_times(text, now),
        speaker=_speaker(text),
        asks=not any(map(_states, _SENTENCES.findall(text))),
        wordiness=_wordiness(text),
    )


def _speaker(text: str) -> Speaker | None:
    if _OF_OTHERS.search(text):
        return "others"
    return "user" if _OF_USER.search(text) else None


def _states(sentence: str) -> bool:
    """Whether a sentence tells something."""
    if _ASKING.search(sentence):
        return False
    return len(sentence.split()) + len(_UNSPACED.findall(sentence)) >= _LEAST_SAID


def _wordiness(text: str) -> float:
    """Between 1 and 3, by the share of letters in scripts without spaces."""
    letters = sum(map(str.isalpha, text))
    if not letters or text.isascii():
        return 1.0
    return 1.0 + 2.0 * min(1.0, len(_UNSPACED.findall(text)) / letters)
