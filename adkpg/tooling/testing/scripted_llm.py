"""A model that follows a script and records what it is sent."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr


@dataclass
class Pause:
    """Stands in a script for an answer that never comes: the call waits to be cancelled."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)


Answer = LlmResponse | list[LlmResponse] | Pause


@dataclass
class Part:
    """What a model has to say, and has been asked.

    Attributes:
      answers: Still to be given, the next one first.
      requests: Each call's instruction and contents, as JSON, and whether it was to stream.
    """

    answers: deque[Answer] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)


class ScriptedLlm(BaseLlm):
    """A model that gives the answers it was told, one for each call, and records the calls.

    Make one with `ScriptedLlm.answering`. A string is an answer in words; `call` and `calls` ask
    for tools; a list of answers is streamed piece by piece; a `Pause` never answers.
    """

    _part: Part = PrivateAttr(default_factory=Part)

    @classmethod
    def answering(cls, *answers: "str | Answer", name: str = "scripted") -> "ScriptedLlm":
        """Returns a model that gives these answers in order.

        Args:
          *answers: One for each time the agent calls the model, tool rounds included.
          name: The model's name.
        """
        told = [text(answer) if isinstance(answer, str) else answer for answer in answers]
        return cls.playing(name, Part(deque(told)))

    @classmethod
    def playing(cls, name: str, part: Part) -> "ScriptedLlm":
        """Returns a model of a part that is kept elsewhere, so that several may play it."""
        llm = cls(model=name)
        llm._part = part
        return llm

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What it was asked so far: ``instruction``, ``contents`` and ``stream`` of each call."""
        return self._part.requests

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Gives the next answer.

        Raises:
          AssertionError: The script has no more.
        """
        self._part.requests.append(
            {
                "stream": stream,
                "instruction": llm_request.config.system_instruction,
                "contents": [
                    content.model_dump(mode="json", exclude_none=True)
                    for content in llm_request.contents
                ],
            }
        )
        if not self._part.answers:
            raise AssertionError(
                f"The model {self.model} was asked {len(self._part.requests)} times, which is more "
                "than its script has answers; add one."
            )
        answer = self._part.answers.popleft()
        if isinstance(answer, Pause):
            answer.reached.set()
            await asyncio.get_running_loop().create_future()
        elif isinstance(answer, LlmResponse):
            yield answer
        else:
            for piece in answer:
                yield piece


def text(words: str, *, tokens: int | None = None, partial: bool | None = None) -> LlmResponse:
    """An answer in words; ``tokens`` is the size of the prompt that the model reports."""
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=tokens)
    return LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text=words)]),
        usage_metadata=usage if tokens is not None else None,
        partial=partial,
    )


def call(name: str, **arguments: Any) -> LlmResponse:
    """An answer that calls one tool."""
    return calls((name, arguments))


def calls(*named: tuple[str, dict[str, Any]]) -> LlmResponse:
    """An answer that calls several tools at once."""
    parts = [
        types.Part(function_call=types.FunctionCall(name=name, args=arguments))
        for name, arguments in named
    ]
    return LlmResponse(content=types.Content(role="model", parts=parts))
