"""Data sets: conversations, and questions with what answers them. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from adkpg.errors import InvalidInput

Level = Literal["turn", "session"]

FIRST_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
"""When the first session was that has no date."""

BETWEEN_SESSIONS = timedelta(days=1)
BETWEEN_TURNS = timedelta(seconds=1)


@dataclass(frozen=True)
class Turn:
    """An author's words.

    Attributes:
      id: No other turn of the session has it; evidence names every turn that does.
      author: Who said it.
      text: What was said.
      moment: When, in UTC.
    """

    id: str
    author: str
    text: str
    moment: datetime


@dataclass(frozen=True)
class Chat:
    """A session: its id in the store, and its turns in order."""

    id: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Question:
    """A question and what answers it; a question without either kind of evidence has no answer.

    Attributes:
      text: The question.
      category: As the file names it; ``""`` without one.
      evidence: Ids of what answers it: turns or sessions of a store, or memories that are stored
        (also by their event's id).
      contains: Texts, each of which is found with the first memory that contains it; case and
        spaces do not count.
      level: What `evidence` names.
      sessions: Ids of the sessions that the evidence lies in; empty where unknown.
      answer: In words, if the file has it.
      moment: When it was asked, in UTC; None is the end of the conversation, or now without one.
      user_id: Whose memories answer it; None is the user that the evaluation is about.
    """

    text: str
    category: str = ""
    evidence: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    level: Level = "turn"
    sessions: tuple[str, ...] = ()
    answer: str | None = None
    moment: datetime | None = None
    user_id: str | None = None

    @property
    def answerable(self) -> bool:
        """Whether anything answers it."""
        return bool(self.evidence or self.contains)


@dataclass(frozen=True)
class Store:
    """What one user's memory is to hold, in order, and the questions to ask of it."""

    name: str
    chats: tuple[Chat, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class DataSet:
    """A file of stores.

    Attributes:
      format: ``LoCoMo``, ``BEAM``, ``LongMemEval``, ``MSC``, ``own``, or ``questions`` for a file
        that has no conversations.
      stores: At least one; their names differ.
      skipped: How many questions are not asked, by the reason.
      dropped: How many names of evidence were left out, since nothing has them.
      repeated: How many turns were left out, since a later one of their session has their id.
      note: What the figures mean, if not what they usually mean; ``""`` otherwise.
    """

    format: str
    stores: tuple[Store, ...]
    skipped: Mapping[str, int] = field(default_factory=dict)
    dropped: int = 0
    repeated: int = 0
    note: str = ""

    @property
    def questions(self) -> int:
        """How many questions something answers."""
        return sum(question.answerable for store in self.stores for question in store.questions)

    @property
    def unanswerable(self) -> int:
        """How many questions nothing answers."""
        return sum(len(store.questions) for store in self.stores) - self.questions

    @property
    def turns(self) -> int:
        """How many turns there are to remember."""
        return sum(len(chat.turns) for store in self.stores for chat in store.chats)

    def first(self, *, stores: int | None = None, questions: int | None = None) -> "DataSet":
        """Returns a part: the first stores, and the first questions of each; None is all."""
        kept = tuple(
            Store(store.name, store.chats, store.questions[:questions])
            for store in self.stores[:stores]
        )
        return DataSet(self.format, kept, self.skipped, self.dropped, self.repeated, self.note)


NO_EVIDENCE = "it names no evidence"
UNKNOWN_EVIDENCE = "its evidence names nothing that the conversation has"
NO_TEXT = "it has no text"


class Collected:
    """What a loader finds, store by store, and what it leaves out.

    Args:
      format: The format's name.
    """

    def __init__(self, format: str) -> None:
        self._format = format
        self._stores: list[Store] = []
        self._named: Counter[str] = Counter()
        self._skipped: dict[str, int] = {}
        self._dropped = 0
        self._repeated = 0

    def skip(self, reason: str) -> None:
        """Counts a question that cannot be asked."""
        self._skipped[reason] = self._skipped.get(reason, 0) + 1

    def question(
        self,
        chats: Sequence[Chat],
        question: Question,
        *,
        answerable: bool = True,
    ) -> Iterable[Question]:
        """Yields the question with the evidence that exists, if it can be asked.

        Args:
          chats: Its store's.
          question: As the file has it.
          answerable: Whether the file says that the conversation answers it.
        """
        if not question.text.strip():
            self.skip(NO_TEXT)
            return
        if not answerable:
            yield _with(question, evidence=(), sessions=())
            return
        if not question.evidence:
            self.skip(NO_EVIDENCE)
            return
        place: dict[str, list[str]] = {}
        for chat in chats:
            for name in [turn.id for turn in chat.turns] if question.level == "turn" else [chat.id]:
                place.setdefault(name, []).append(chat.id)
        named = tuple(dict.fromkeys(question.evidence))
        known = tuple(name for name in named if name in place)
        self._dropped += len(named) - len(known)
        if not known:
            self.skip(UNKNOWN_EVIDENCE)
            return
        sessions = tuple(dict.fromkeys(each for name in known for each in place[name]))
        yield _with(question, evidence=known, sessions=sessions)

    def add(self, name: str, chats: Sequence[Chat], questions: Sequence[Question]) -> None:
        """Adds a store; a name that another has gets a number.

        If turns have one id in a session, the last counts; the others are counted as left out.

        Raises:
          InvalidInput: Two of its sessions have one id.
        """
        ids = Counter(chat.id for chat in chats)
        if len(ids) < len(chats):
            twice = next(each for each, count in ids.items() if count > 1)
            raise InvalidInput(
                f"The store {name!r} has the session {twice!r} twice; give each an id of its own."
            )
        kept = []
        for chat in chats:
            last = {turn.id: turn for turn in chat.turns}  # as memory has it of a session's events
            self._repeated += len(chat.turns) - len(last)
            kept.append(Chat(chat.id, tuple(last.values())))
        unique = name
        while self._named[unique]:
            self._named[name] += 1
            unique = f"{name}-{self._named[name]}"
        self._named[unique] += 1
        self._stores.append(Store(unique, tuple(kept), tuple(questions)))

    def dataset(self, note: str = "") -> DataSet:
        """Returns all of it.

        Raises:
          InvalidInput: There is no store.
        """
        if not self._stores:
            raise InvalidInput(f"The file has no conversation in {self._format}'s format.")
        return DataSet(
            self._format, tuple(self._stores), self._skipped, self._dropped, self._repeated, note
        )


def _with(question: Question, *, evidence: tuple[str, ...], sessions: tuple[str, ...]) -> Question:
    return Question(
        question.text.strip(),
        question.category,
        evidence,
        question.contains if evidence else (),
        question.level,
        sessions,
        question.answer,
        question.moment,
        question.user_id,
    )
