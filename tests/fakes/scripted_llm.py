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
    """What one model of a scenario has to say, and has been asked."""

    answers: deque[Answer] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)


class ScriptedLlm(BaseLlm):
    """Gives the next answer of its part; a list is given piece by piece."""

    _part: Part = PrivateAttr()

    @classmethod
    def playing(cls, name: str, part: Part) -> "ScriptedLlm":
        llm = cls(model=name)
        llm._part = part
        return llm

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
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
