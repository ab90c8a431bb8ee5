"""Model: which model speaks in the demo, and the small one that needs no network."""

import math
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from operator import mul

from google.adk.models.base_llm import BaseLlm
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic_core import to_jsonable_python

from adkpg.embedding.embedder import Embedder, embed_checked, embed_query_checked

GEMINI_MODEL = "gemini-3.5-flash"

UNKNOWN = "I don't know: nothing that I was given answers this."

_LEAST_COSINE = 0.3  # true pairs of the demo have 0.43 and more, others 0.21
_OVERLAP = 0.5  # least share of the question's words that a sentence without a near vector needs
_QUESTION = re.compile(
    r"\W*(am|are|can|could|did|do|does|had|has|have|how|is|may|must|should|was|were|what|when|where"
    r"|which|who|whom|whose|why|will|would)\b",
    re.IGNORECASE,
)
_EMPTY_WORD = re.compile(
    r"(a|about|am|an|and|any|are|at|be|been|by|can|could|did|do|does|for|from|had|has|have|how|i|in"
    r"|is|it|its|may|me|must|my|name|not|of|on|or|our|should|so|some|that|the|their|them|there|these"
    r"|they|this|to|us|was|we|were|what|when|where|which|who|whom|whose|why|will|with|would|you"
    r"|your)"
)
_PRELOADED = ("PAST_CONVERSATIONS", "recalled_memory")  # the tags of ADK and of adkpg
_BULLET = re.compile(r"^- (?:\[[^]]*\] )?", re.MULTILINE)


def choose_model(environ: Mapping[str, str], embedder: Embedder | None) -> BaseLlm:
    """Returns Gemini if ``GOOGLE_API_KEY`` or ``GEMINI_API_KEY`` is set, else the offline model."""
    if environ.get("GOOGLE_API_KEY") or environ.get("GEMINI_API_KEY"):
        return Gemini(model=GEMINI_MODEL)
    return OfflineModel(embedder=embedder)


class OfflineModel(BaseLlm):
    """A small extractive model: it answers with a sentence of the user's that it was given.

    It knows the request and nothing else. Told something, it calls the tool ``note`` if it has it.
    Asked something, it looks for the nearest sentence among the user's earlier turns, the answer of
    ``load_memory`` and the text of ``preload_memory``. It calls ``load_memory`` if it has it and
    nothing was near. It says that it does not know when nothing is.

    Attributes:
      embedder: Measures nearness in meaning; None compares words.
    """

    model: str = "adkpg-offline"
    embedder: Embedder | None = None

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yields one response; a stream has one part."""
        part = await self._answer(Reading.of(llm_request))
        yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=False)

    async def _answer(self, reading: "Reading") -> types.Part:
        text = reading.text
        if not is_question(text):
            if "note" in reading.tools:
                return types.Part.from_function_call(name="note", args={"fact": text})
            return types.Part(text="Thank you, I have noted that.")
        sentence = await self._nearest(text, reading.sentences)
        if sentence is not None:
            return types.Part(text=f'You told me: "{sentence}"')
        if "load_memory" in reading.tools:
            return types.Part.from_function_call(name="load_memory", args={"query": text})
        return types.Part(text=UNKNOWN)

    async def _nearest(self, question: str, sentences: Sequence[str]) -> str | None:
        """Returns the sentence nearest to a question, None if none is near enough."""
        overlaps = [_overlap(question, sentence) for sentence in sentences]
        cosines, least = [0.0] * len(sentences), math.inf
        if self.embedder is not None and sentences:
            vector = await embed_query_checked(self.embedder, question)
            vectors = await embed_checked(self.embedder, list(sentences))
            cosines = [_cosine(vector, other) for other in vectors]
            least = _LEAST_COSINE
        near = [
            (cosine + overlap, sentence)
            for sentence, cosine, overlap in zip(sentences, cosines, overlaps, strict=True)
            if cosine >= least or overlap >= _OVERLAP
        ]
        return max(near)[1] if near else None


@dataclass(frozen=True)
class Reading:
    """A request as the offline model reads it.

    Attributes:
      text: The last thing the user said; ``""`` if nothing.
      sentences: Earlier sentences of the user's, said here or remembered; no questions.
      tools: Names of the tools that may be called and were not yet called for `text`.
    """

    text: str
    sentences: tuple[str, ...]
    tools: frozenset[str]

    @classmethod
    def of(cls, request: LlmRequest) -> "Reading":
        """Reads a request's contents and tools."""
        said: list[str] = []
        remembered: list[str] = []
        called: set[str] = set()
        for content in request.contents:
            for part in content.parts or []:
                if (answer := part.function_response) is not None:
                    called.add(answer.name or "")
                    remembered += _memories(answer) if answer.name == "load_memory" else []
                elif part.text and content.role == "user":
                    if preloaded := _within_tags(part.text):
                        remembered += _preloaded(preloaded)
                    else:
                        said.append(part.text)
                        called.clear()
        text = said.pop() if said else ""
        told = [sentence for turn in (*said, *remembered) for sentence in sentences_of(turn)]
        return cls(
            text=text,
            sentences=tuple(dict.fromkeys(told)),
            tools=frozenset(request.tools_dict) - called,
        )


def is_question(text: str) -> bool:
    """Whether a text asks: it has a question mark, or begins with a word that asks."""
    return "?" in text or _QUESTION.match(text) is not None


def sentences_of(text: str) -> list[str]:
    """Returns a text's sentences that are no questions."""
    parts = (part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text))
    return [part for part in parts if part and not is_question(part)]


def _memories(answer: types.FunctionResponse) -> list[str]:
    """Returns what the user said among the memories that ``load_memory`` answered."""
    response = to_jsonable_python(answer.response or {})
    memories = (response.get("result") or response).get("memories") or []
    said = [memory for memory in memories if memory.get("author") == "user"]
    # adkpg's tool answers texts, ADK's whole contents.
    texts = [memory["text"] for memory in said if "text" in memory]
    parts = [part for memory in said for part in memory.get("content", {}).get("parts") or []]
    return texts + [part["text"] for part in parts if part.get("text")]


def _within_tags(text: str) -> str:
    """Returns what a preload tool put into a text; ``""`` if it put nothing."""
    for tag in _PRELOADED:
        _, _, rest = text.partition(f"<{tag}>\n")
        inside, _, _ = rest.rpartition(f"\n</{tag}>")
        if inside:
            return inside
    return ""


def _preloaded(text: str) -> list[str]:
    """Returns what the user said in a preload text: ADK's has lines of time, adkpg's bullets."""
    turns = re.split(r"^Time: .*\n", text, flags=re.MULTILINE)
    if _BULLET.match(text):
        turns = [_BULLET.sub("", line) for line in text.splitlines()]
    return [turn.removeprefix("user: ") for turn in turns if turn.startswith("user: ")]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower().replace("'s", ""))


def _overlap(question: str, sentence: str) -> float:
    """Returns the share of the question's words, those that mean something, in a sentence."""
    wanted = {word for word in _words(question) if not _EMPTY_WORD.fullmatch(word)}
    return len(wanted.intersection(_words(sentence))) / len(wanted) if wanted else 0.0


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = math.fsum(map(mul, one, other))
    return product / (math.hypot(*one) * math.hypot(*other))
