"""Agent: the assistant of the demo, an ordinary ADK agent."""

from collections.abc import Callable

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from adkpg.errors import ConfigurationError

_INSTRUCTION = """
You are a personal assistant. Answer in {user:language}, in one sentence.
When the user tells you a fact, call the tool note once, then thank them without repeating the fact.
When the user asks something, answer only from what you were given: this conversation and your
memory. If it holds no answer, say that you don't know.
"""


def note(fact: str, tool_context: ToolContext) -> dict[str, str]:
    """Writes down a fact that the user has told.

    Args:
      fact: The fact, in the user's words.
      tool_context: Given by ADK; its state is stored with the tool's answer.
    """
    state = tool_context.state
    state["notes"] = [*state.get("notes", []), fact]
    state["user:facts_told"] = state.get("user:facts_told", 0) + 1
    state["app:facts_told"] = state.get("app:facts_told", 0) + 1
    state["temp:last_fact"] = fact
    return {"status": "noted"}


def assistant(
    model: BaseLlm, on_request: Callable[[int], None], memory_tool: BaseTool | None = None
) -> LlmAgent:
    """Returns the agent; it keeps its last answer in the state under ``last_answer``.

    Args:
      model: The one that speaks.
      on_request: Told how many contents each request to the model carries.
      memory_tool: ADK's ``load_memory`` or ``preload_memory``.
    """

    def count(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        on_request(len(llm_request.contents))

    def say_failure(
        callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        if isinstance(model, Gemini):
            raise ConfigurationError(
                f"The model {model.model} did not answer ({type(error).__name__}: {error}); fix "
                "that, or unset GOOGLE_API_KEY and GEMINI_API_KEY to use the offline model."
            ) from error

    return LlmAgent(
        name="assistant",
        model=model,
        instruction=_INSTRUCTION,
        tools=[note, *([memory_tool] if memory_tool else [])],
        output_key="last_answer",
        before_model_callback=count,
        on_model_error_callback=say_failure,
    )
