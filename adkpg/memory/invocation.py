"""Invocation: the agent's run that asks, found from who awaits the call."""

import asyncio
import inspect
from os.path import dirname, sep
from types import FrameType

from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext

_Context = ReadonlyContext | InvocationContext
_LOOP = dirname(asyncio.__file__) + sep


def running_invocation() -> str | None:
    """Returns the id of the invocation that awaits this call; None outside of any.

    ADK's tools ask a memory service without naming it, so it is read from the context that one of
    the callers was given as an argument. A context variable could not tell it: it would outlive the
    run in its task. Inside of ADK's ``AgentTool`` it is the outer agent's, whose turn is running.
    """
    frame = inspect.currentframe()
    context = None
    while context is None and frame is not None:
        context = _given(frame)
        frame = frame.f_back
    while outer := _outer(context):
        context = outer
    return None if context is None else context.invocation_id


def _given(frame: FrameType) -> _Context | None:
    """Returns the context among a function's arguments."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if not names or code.co_filename.startswith(_LOOP):
        return None  # all of a frame's values are copied to be looked at
    given = frame.f_locals
    return next((given[name] for name in names if isinstance(given.get(name), _Context)), None)


def _outer(context: _Context | None) -> _Context | None:
    """Returns the context of the ``AgentTool`` in which a run happens; its artifacts lead there."""
    if isinstance(context, Context):
        context = context.get_invocation_context()
    artifacts = context.artifact_service if isinstance(context, InvocationContext) else None
    outer = getattr(artifacts, "tool_context", None)
    return outer if isinstance(outer, Context) else None
