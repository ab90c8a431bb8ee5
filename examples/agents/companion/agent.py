"""An agent that answers from its memory, and remembers each session after every turn."""

import os

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.tools.load_memory_tool import load_memory_tool

from adkpg.embedding import LocalEmbedder
from adkpg.tooling.demo.model import choose_model


async def remember(callback_context: CallbackContext) -> None:
    """Remembers the session; adding it again changes nothing."""
    await callback_context.add_session_to_memory()


root_agent = LlmAgent(
    name="companion",
    model=choose_model(os.environ, LocalEmbedder()),
    instruction="Answer from this conversation and your memory only.",
    tools=[load_memory_tool],
    after_agent_callback=remember,
)
