"""RememberPolicy: what becomes memory, and in which words. Pure; it logs."""

import inspect
import logging
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.flows.llm_flows.functions import (
    REQUEST_CONFIRMATION_FUNCTION_CALL_NAME,
    REQUEST_EUC_FUNCTION_CALL_NAME,
)
from google.genai import types

from adkpg.errors import ConfigurationError
from adkpg.remember.secrets import redact_secrets

logger = logging.getLogger(__name__)

# ADK's own questions and their answers (flows/llm_flows/context/_contents.py, which leaves them out
# of what a model is sent): credentials, confirmations, framework messages.
_ADK_CALLS = frozenset(
    {
        REQUEST_EUC_FUNCTION_CALL_NAME,
        REQUEST_CONFIRMATION_FUNCTION_CALL_NAME,
        "adk_framework",
    }
)


def spoken(event: Event) -> bool:
    """Returns whether an event is the user's, or an agent's final answer: the default choice."""
    return event.author == "user" or event.is_final_response()


@dataclass(frozen=True)
class Said:
    """The texts and artifacts to remember of an event; one of the two is not empty.

    Attributes:
      texts: Part by part.
      artifacts: Names and versions of the artifacts that it saved.
    """

    texts: list[str]
    artifacts: dict[str, int]

    def content(self, author: str) -> types.Content | None:
        """Returns the texts as an event's content; None without any."""
        if not self.texts:
            return None
        role = "user" if author == "user" else "model"
        return types.Content(role=role, parts=[types.Part(text=text) for text in self.texts])


@dataclass(frozen=True, kw_only=True)
class RememberPolicy:
    """Which events become memories, and with which text.

    A `Database` has one, which holds on every way into memory: appends, `add_session_to_memory`,
    `add_events_to_memory`, ADK's memory endpoint, plugins, tools, notes and changed texts. Notes
    and changed texts were written for memory, so `redact` alone is asked about them. Documents are
    not conversations, so no policy holds for them.

    Whatever the options, these never do: partial events, thoughts, calls and answers of tools,
    code and its output, files' bytes, and ADK's own requests for credentials and confirmations.

    A hook that raises, or answers with something else than it should, fails closed: nothing of
    that event is remembered. An error in the log names the event, the hook's exception type and its
    place, but no text. The event itself is stored as without a policy: the
    conversation does not depend on the hook.

    Attributes:
      select: Whose text is remembered, of the events with text; default the user's and final
        answers' (`spoken`). ``lambda event: True`` adds what agents say between tool calls.
      authors: Remembers only what these have said; empty means all. The user's author is ``user``,
        an agent's is its name.
      redact: Given a text, as it would be stored, once; returns it, or another text to store
        instead, or None to remember nothing of it. An empty text is remembered as no text. Called
        where the text is stored, so it must be quick and must not block; a long text is given to
        it in another thread. Artifacts' names, topics and metadata are not given to it.
        `redact_secrets` is one: keys, cards, tokens and passwords that their form or name tells.
      artifacts: Whether the names and versions of the artifacts that an event saved are
        remembered, also of events whose text is not, such as a tool's answer.

    Raises:
      ConfigurationError: authors is one string, or a hook is a coroutine function.
    """

    select: Callable[[Event], bool] = spoken
    authors: Collection[str] = ()
    redact: Callable[[str], str | None] | None = None
    artifacts: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.authors, str):
            raise ConfigurationError(
                f"authors is a collection of names, not one; write authors=[{self.authors!r}]."
            )
        for name in ("select", "redact"):
            if inspect.iscoroutinefunction(getattr(self, name)):
                raise ConfigurationError(
                    f"{name} is called where nothing can be awaited; give a plain function."
                )

    def remembered(self, event: Event) -> Event | None:
        """Returns the part of an event that is to be remembered, or None.

        It has the event's ids, author, time, branch, text and saved artifacts, and nothing else:
        no state (``output_key`` puts the answer's words there), no output, no metadata. The given
        event is not changed.
        """
        said = said_of(self, event)
        if said is None:
            return None
        return Event(
            id=event.id,
            invocation_id=event.invocation_id,
            author=event.author,
            timestamp=event.timestamp,
            branch=event.branch,
            content=said.content(event.author),
            actions=EventActions(artifact_delta=said.artifacts),
        )

    def cleared(self, content: types.Content, *, name: str) -> types.Content | None:
        """Returns what is stored of a note; None if `redact` leaves nothing of it.

        With a `redact` its texts alone are stored, for nothing else is shown to it.

        Args:
          content: The note.
          name: What the log calls it.
        """
        if self.redact is None:
            return content
        texts = [part.text for part in content.parts or [] if part.text and not part.thought]
        text = self.redacted(" ".join(texts), name=name) if texts else ""
        if text is None or (texts and not text.strip()):
            return None
        return types.Content(role=content.role, parts=[types.Part(text=text)] if text else [])

    def redacted(self, text: str, *, name: str) -> str | None:
        """Returns a text as `redact` lets it be stored; None if it is refused or the hook failed.

        Args:
          text: The text.
          name: What the log calls its origin.
        """
        if self.redact is None:
            return text
        try:
            answer: object = self.redact(text)
            if answer is None or isinstance(answer, str):
                return answer
            raise TypeError
        except Exception as exc:  # noqa: BLE001 - the caller's code may raise anything
            _log_failure("redact", name, exc)
            return None


def said_of(policy: RememberPolicy, event: Event) -> Said | None:
    """Returns the texts and artifacts of an event that are to be remembered, or None."""
    if event.partial or (policy.authors and event.author not in policy.authors):
        return None
    if _is_adk_call(event):
        return None
    texts = _texts(event)
    name = f"event {event.id}"
    if texts:
        try:
            if not policy.select(event):
                texts = []
        except Exception as exc:  # noqa: BLE001 - the caller's code may raise anything
            _log_failure("select", name, exc)
            return None
    if texts and policy.redact is not None:
        redacted = policy.redacted(" ".join(texts), name=name)
        if redacted is None:
            return None
        texts = [redacted] if redacted.strip() else []
    artifacts = dict(event.actions.artifact_delta) if policy.artifacts else {}
    return Said(texts, artifacts) if texts or artifacts else None


Remember = RememberPolicy | Literal["redacted"] | bool
"""The ways to say a policy: True is the default one, ``"redacted"`` that with `redact_secrets`."""


def policy_of(remember: Remember | None) -> RememberPolicy | None:
    """Returns the policy that is meant; None and False are none.

    Raises:
      ConfigurationError: It is none of `Remember`.
    """
    if remember is None or isinstance(remember, (bool, RememberPolicy)):
        return RememberPolicy() if remember is True else remember or None
    if remember == "redacted":
        return RememberPolicy(redact=redact_secrets)
    raise ConfigurationError(
        f"remember is True, 'redacted', or a RememberPolicy, not {remember!r}."
    )


def policy_of_service(service: object) -> RememberPolicy | None:
    """Returns the policy of a memory service's Database; None if it has neither."""
    policy = getattr(getattr(service, "database", None), "policy", None)
    return policy if isinstance(policy, RememberPolicy) else None


def remembered_events(policy: RememberPolicy | None, events: Sequence[Event]) -> Sequence[Event]:
    """Returns the parts of events that are to be remembered; without a policy, the events."""
    if policy is None:
        return events
    remembered = [policy.remembered(event) for event in events]
    return [event for event in remembered if event is not None]


def _texts(event: Event) -> list[str]:
    """Returns the spoken texts, part by part; in a live session those that were heard."""
    parts = (event.content.parts if event.content else None) or []
    texts = [part.text for part in parts if part.text and not part.thought]
    if not texts:
        heard = (event.input_transcription, event.output_transcription)
        texts = [each.text for each in heard if each is not None and each.text]
    return [text for text in texts if text.strip()]


def _is_adk_call(event: Event) -> bool:
    parts = (event.content.parts if event.content else None) or []
    return any(
        call is not None and call.name in _ADK_CALLS
        for part in parts
        for call in (part.function_call, part.function_response)
    )


def _log_failure(hook: str, name: str, exc: Exception) -> None:
    # The exception's own message may quote the text, so it is not logged.
    logger.error(
        "The policy's %s failed on %s with %s; nothing of it is remembered.\n%s",
        hook,
        name,
        type(exc).__qualname__,
        "".join(traceback.format_tb(exc.__traceback__)),
    )
