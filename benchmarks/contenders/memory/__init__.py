"""The contenders of the memory benchmark; they need the environment of ``make bench``."""

from benchmarks.contenders.memory.contender import Contender
from benchmarks.contenders.memory.database_memory import DatabaseMemory
from benchmarks.contenders.memory.langchain_store import LangChainStore
from benchmarks.contenders.memory.langgraph_store import LangGraphStore
from benchmarks.contenders.memory.memshield import MemShield
from benchmarks.contenders.memory.pgvector_memory import PgVectorMemory
from benchmarks.contenders.memory.sqlite_memory import SqliteMemory
from benchmarks.contenders.memory.sqlspec_memory import SqlspecMemory

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
