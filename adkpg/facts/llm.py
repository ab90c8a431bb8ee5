"""FactExtractor: facts drawn by any of ADK's models."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types
from pydantic import BaseModel

from adkpg.errors import ConfigurationError, ModelError, ModelUnavailable
from adkpg.facts import merging, prompts
from adkpg.facts.extractor import Extraction, KnownFact, Summary, Turn, Usage

_SHOWN_ANSWER = 4_000  # characters of an unreadable answer that the repair request repeats

_REFUSALS = (400, 413, 422)  # HTTP: it is the request that cannot be answered
_OUTAGES = ("429", "500", "502", "503", "504", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "INTERNAL")

Read = TypeVar("Read")

_PROMPT_CHARS = 100_000
"""Characters of turns that are summed up at once: some 25,000 tokens of English."""


class FactExtractor:
    """Draws facts from turns with a language model, and sums sessions up.

    Turns go to the model as escaped data that it is told not to obey. A model that obeys all the
    same can only state short facts with provenance among the turns it was given. If an answer is
    not the JSON asked for, the model is asked once more. A second such answer is an error, so that
    the job is retried.

    Args:
      llm: Any ADK model, or the name of one for ADK's registry.
      max_fact_chars: Longest fact that the model is asked for, in characters, at least 20; what
        is stored is bounded by `adkpg.facts.merging.Limits`.
      max_summary_chars: Longest summary, in characters; a longer one is cut, at least 20.
      max_turn_chars: Characters of one turn that the model sees when it draws facts, at least 1; of
        a session that is summed up it sees all.
      structured: Whether the request carries a response schema; False for models that refuse one.
      config: What else each request carries, like a temperature or the most output tokens.
      timeout_s: Seconds to wait for one answer.

    Raises:
      ConfigurationError: ADK knows no such model, or an argument is out of range.
    """

    def __init__(
        self,
        llm: BaseLlm | str,
        *,
        max_fact_chars: int = 200,
        max_summary_chars: int = 1_500,
        max_turn_chars: int = 8_000,
        structured: bool = True,
        config: types.GenerateContentConfig | None = None,
        timeout_s: float = 120.0,
    ) -> None:
        if min(max_fact_chars, max_summary_chars) < 20 or max_turn_chars < 1 or timeout_s <= 0:
            raise ConfigurationError(
                "A FactExtractor's limits are too small; give max_fact_chars and "
                "max_summary_chars of 20 and more, max_turn_chars and timeout_s above 0."
            )
        if isinstance(llm, str):
            try:
                llm = LLMRegistry.new_llm(llm)
            except (ValueError, ImportError) as exc:
                raise ConfigurationError(
                    f"ADK has no model {llm!r}; give a name that ADK's LlmAgent takes, with its "
                    "package installed, or a BaseLlm."
                ) from exc
        self._llm = llm
        self._max_fact_chars = max_fact_chars
        self._max_summary_chars = max_summary_chars
        self._max_turn_chars = max_turn_chars
        self._structured = structured
        self._config = config or types.GenerateContentConfig()
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r})"

    @property
    def model(self) -> str:
        """The model's name."""
        return self._llm.model

    async def extract(self, turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
        """Returns what the turns say that is not known yet; without turns, no call is made.

        Raises:
          ModelError: The model failed, refused, or answered twice what cannot be read; the
            error has the tokens spent.
        """
        if not turns:
            return Extraction()
        turn_ids, fact_ids = prompts.labels("t", turns), prompts.labels("f", known)
        read, usage = await self._answer(
            prompts.EXTRACT_INSTRUCTION.format(limit=self._max_fact_chars),
            prompts.extract_prompt(turns, known, self._max_turn_chars),
            prompts.ExtractionForm,
            lambda text: prompts.extraction(text, turn_ids, fact_ids),
        )
        return replace(read, usage=usage)

    async def summarize(self, turns: Sequence[Turn]) -> Summary:
        """Returns a session's turns in a few sentences.

        A session that is too long for one prompt is summed up in parts, one after the other, and
        then what these say.

        Raises:
          ModelError: As with `extract`, or there are no turns.
        """
        if not turns:
            raise ModelError("A session without turns cannot be summed up; give its turns.")
        spent = Usage()
        most = max(_PROMPT_CHARS, 4 * self._max_summary_chars)  # so that summaries are less
        while len(parts := prompts.parted(turns, most)) > 1:
            said: list[Turn] = []
            for part in parts:
                summary = await self._summary(part, spent)
                spent = summary.usage
                said.append(replace(part[-1], author="summary", text=summary.text))
            turns = said
        return await self._summary(parts[0], spent)

    async def _summary(self, turns: Sequence[Turn], spent: Usage) -> Summary:
        try:
            (text, topics), usage = await self._answer(
                prompts.SUMMARIZE_INSTRUCTION.format(limit=self._max_summary_chars),
                prompts.turns_prompt(turns, sum(len(turn.text) for turn in turns)),
                prompts.SummaryForm,
                prompts.summary,
            )
        except ModelError as exc:
            if isinstance(exc.usage, Usage):
                exc.usage = spent + exc.usage
            raise
        return Summary(merging.shortened(text, self._max_summary_chars), topics, spent + usage)

    async def _answer(
        self, instruction: str, prompt: str, form: type[BaseModel], read: Callable[[str], Read]
    ) -> tuple[Read, Usage]:
        """Asks, reads, and asks once more if the answer cannot be read."""
        contents = [_said("user", prompt)]
        text, usage = await self._ask(instruction, contents, form, Usage())
        try:
            return read(text), usage
        except ModelError as exc:
            repair = prompts.REPAIR.format(reason=exc)
        if text.strip():
            contents += [_said("model", text[:_SHOWN_ANSWER]), _said("user", repair)]
        else:  # a model's turn without text is refused by some
            contents = [_said("user", f"{prompt}\n{repair}")]
        text, usage = await self._ask(instruction, contents, form, usage)
        try:
            return read(text), usage
        except ModelError as exc:
            raise ModelError(
                f"Model {self.model!r} answered twice in a form that cannot be read: {exc}; use a "
                "model that follows a JSON form, or allow it more output tokens.",
                usage,
            ) from exc

    async def _ask(
        self, instruction: str, contents: list[types.Content], form: type[BaseModel], spent: Usage
    ) -> tuple[str, Usage]:
        """Returns the text of one answer, and the tokens spent so far."""
        config = self._config.model_copy(deep=True)
        config.system_instruction = instruction
        if self._structured:
            config.response_schema = form
            config.response_mime_type = "application/json"
        request = LlmRequest(model=self._llm.model, contents=list(contents), config=config)
        response = LlmResponse()
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                aclosing(self._llm.generate_content_async(request)) as responses,
            ):
                async for each in responses:
                    response = response if each.partial else each
        except Exception as exc:
            # google-genai and others name the HTTP status differently.
            status = getattr(exc, "status_code", None) or getattr(exc, "code", None)
            raise (ModelError if status in _REFUSALS else ModelUnavailable)(
                f"Model {self.model!r} failed with {type(exc).__name__}; fix the fault that its "
                "error, the cause of this one, names.",
                spent + Usage(calls=1),
            ) from exc
        usage = spent + _usage(response)
        text = _text(response)
        if not text and (code := _refusal(response)):
            raise (ModelUnavailable if code in _OUTAGES else ModelError)(
                f"Model {self.model!r} gave no answer ({code}); use another model or other safety "
                "settings.",
                usage,
            )
        return text, usage


def _said(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])


def _usage(response: LlmResponse) -> Usage:
    counted = response.usage_metadata or types.GenerateContentResponseUsageMetadata()
    prompt = counted.prompt_token_count or 0
    output = (counted.candidates_token_count or 0) + (counted.thoughts_token_count or 0)
    if counted.total_token_count:  # some models count thoughts among the candidates' tokens
        output = max(counted.total_token_count - prompt, 0)
    return Usage(prompt, output, 1)


def _text(response: LlmResponse) -> str:
    """Returns the words of an answer, without thoughts; a call's arguments if it has no words."""
    parts = (response.content and response.content.parts) or []
    calls = [part.function_call for part in parts if part.function_call]
    arguments = [json.dumps(call.args) for call in calls if call.args]
    words = "".join(part.text for part in parts if part.text and not part.thought)
    return words or "".join(arguments[:1])


def _refusal(response: LlmResponse) -> str | None:
    reason = response.finish_reason
    ended = reason in (None, types.FinishReason.STOP, types.FinishReason.FINISH_REASON_UNSPECIFIED)
    return response.error_code or (None if ended or reason is None else str(reason.value))
