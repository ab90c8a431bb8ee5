"""The contenders of the memory benchmark; they need the environment of ``make bench``."""

from memory_contenders.contender import Contender
from memory_contenders.database_memory import DatabaseMemory
from memory_contenders.langchain_store import LangChainStore
from memory_contenders.langgraph_store import LangGraphStore
from memory_contenders.memshield import MemShield
from memory_contenders.pgvector_memory import PgVectorMemory
from memory_contenders.sqlite_memory import SqliteMemory
from memory_contenders.sqlspec_memory import SqlspecMemory

CONTENDERS: tuple[type[Contender], ...] = (
    PgVectorMemory,
    MemShield,
    LangGraphStore,
    LangChainStore,
    SqlspecMemory,
    DatabaseMemory,
    SqliteMemory,
)
"""Made of the URL of an empty database and the shared embedding function, in the page's order."""
