"""Cues: what a question says besides its words: when, and who said it. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from adkpg.memory.search.times import NO_TIMES, Times, told_times

Speaker = Literal["user", "others"]

_LOOKED_AT = 2_000  # characters
# Scripts without spaces, of which `searchable` makes some three words where others have one.
_UNSPACED = re.compile("[\u0e01-\u0eff\u1000-\u109f\u1780-\u17d3\u3040-\u30ff\u3400-\u9fff]")
# What was said is asked for in the past tense: "can you recommend" asks for something new.
_OF_OTHERS = re.compile(
    r"\byou(?:'ve|\s+have|\s+had|\s+once|\s+just)?\s+(?:\w+\s+)?"
    r"(?:recommended|suggested|told|said|advised|gave|mentioned|proposed|explained|listed|described"
    r"|sent|wrote)\b"
    r"|\b(?:did|have|had)\s+you\s+(?:\w+\s+)?"
    r"(?:recommend|suggest|tell|told|sa[yi]|advis|g[ai]ve|mention|propos|explain|list|describ|sen[dt]"
    r"|writ)"
    r"|\byour\s+(?:recommendation|suggestion|advice|answer|explanation)"
    # "Can you", in Chinese, which has no tense.
    r"|(?:你|您)(?!能|可|会|會|帮|幫).{0,8}?(?:推荐|推薦|建议|建議|告诉|告訴|说过|說過|提到|介绍|介紹|给过)",
    re.IGNORECASE,
)
_OF_USER = re.compile(r"\b(?:I|I'?m|I'?ve|my|mine|myself)\b|(?<!告诉)(?<!告訴)我|俺", re.IGNORECASE)


@dataclass(frozen=True)
class Cues:
    """What a question says besides its words.

    Attributes:
      times: When what it asks for was said or happened.
      speaker: Whose words it asks for: the user's own, or those of the others, the agents; None if
        it does not say.
      wordiness: How many times as many words a text has, in the index, as one in English that says
        as much.
    """

    times: Times = NO_TIMES
    speaker: Speaker | None = None
    wordiness: float = 1.0


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
        wordiness=_wordiness(text),
    )


def _speaker(text: str) -> Speaker | None:
    if _OF_OTHERS.search(text):
        return "others"
    return "user" if _OF_USER.search(text) else None


def _wordiness(text: str) -> float:
    """Between 1 and 3, by the share of letters in scripts without spaces."""
    letters = sum(map(str.isalpha, text))
    if not letters or text.isascii():
        return 1.0
    return 1.0 + 2.0 * min(1.0, len(_UNSPACED.findall(text)) / letters)
