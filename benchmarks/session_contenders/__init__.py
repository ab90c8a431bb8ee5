"""What `sessions.py` measures: adkpg, its peers, and the floor, each behind `Contender`."""

from session_contenders.adk import Adk
from session_contenders.contender import Contender
from session_contenders.floor import Floor
from session_contenders.openai_agents import OpenAIAgents
from session_contenders.ours import Adkpg
from session_contenders.sqlspec_adk import Sqlspec

CONTENDERS: tuple[Contender, ...] = (Adkpg(), Floor(), Adk(), Sqlspec(), OpenAIAgents())
"""In the order that they take turns."""
