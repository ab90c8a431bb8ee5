"""The contenders of the session benchmark: adkpg, its peers, and the floor under them."""

from benchmarks.contenders.sessions.adk import Adk
from benchmarks.contenders.sessions.contender import Contender
from benchmarks.contenders.sessions.floor import Floor
from benchmarks.contenders.sessions.openai_agents import OpenAIAgents
from benchmarks.contenders.sessions.ours import Adkpg
from benchmarks.contenders.sessions.sqlspec_adk import Sqlspec

CONTENDERS: tuple[Contender, ...] = (Adkpg(), Floor(), Adk(), Sqlspec(), OpenAIAgents())
"""In the order that they take turns."""
