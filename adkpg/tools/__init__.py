"""Memory as tools of ADK agents: recall before the turn or on request, remember, forget.

``LlmAgent(tools=[load_memory, preload_memory])`` uses the runner's memory service, whichever it is;
the classes take options and can hold a service of their own.
"""

from adkpg.tools.notes import ForgetTool, RememberTool
from adkpg.tools.recall import LoadMemoryTool, Preloaded, PreloadMemoryTool, preloaded

__all__ = [
    "ForgetTool",
    "LoadMemoryTool",
    "PreloadMemoryTool",
    "Preloaded",
    "RememberTool",
    "forget",
    "load_memory",
    "preload_memory",
    "preloaded",
    "remember",
]

load_memory = LoadMemoryTool()
preload_memory = PreloadMemoryTool()
remember = RememberTool()
forget = ForgetTool()
