"""Story: the words of one demo, the built-in ones or the user's own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question for the agent.

    Attributes:
      text: As the user asks it.
      expected: A word of the true answer; None if it is not known beforehand.
      wordless: Whether it shares no word with anything that was said.
    """

    text: str
    expected: str | None = None
    wordless: bool = False


@dataclass(frozen=True)
class Story:
    """The words that are told and asked.

    Attributes:
      told: In the first session, turn by turn.
      resumed: Questions when that session is resumed.
      asked: Questions in a new session, which only memory can answer.
    """

    told: tuple[str, ...]
    resumed: tuple[Question, ...]
    asked: tuple[Question, ...]

    @classmethod
    def of(cls, told: tuple[str, ...], asked: tuple[str, ...]) -> "Story":
        """Returns a story in the user's own words: every question is asked in both sessions."""
        questions = tuple(map(Question, asked))
        return cls(told, questions, questions)


_TOLD = (
    "I'm allergic to peanuts.",
    "We adopted a greyhound named Biscuit last month.",
    "My sister gets married in Lisbon on the ninth of May.",
)
_RESUMED = (Question("What is my dog called?", "Biscuit"),)

STORY = Story(_TOLD, _RESUMED, (Question("Which snacks could harm me?", "peanuts", wordless=True),))
"""No word of its question was ever said: only the meaning finds the answer."""

WORD_STORY = Story(
    _TOLD,
    (Question("Who is Biscuit?", "greyhound"),),
    (Question("What am I allergic to?", "peanuts"),),
)
"""The story where no embedder is installed, so that memory searches words only."""
