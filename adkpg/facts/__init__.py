"""Facts: what turns say of a person, drawn by an extractor, merged with what is known, audited."""

from adkpg.facts.extractor import (
    Add,
    Extraction,
    KnownFact,
    MemoryExtractor,
    Operation,
    Summarizer,
    Summary,
    Supersede,
    Turn,
    Update,
    Usage,
)
from adkpg.facts.llm import FactExtractor
from adkpg.facts.merging import Limits
from adkpg.facts.service import (
    ExtractionReport,
    Facts,
    Profile,
    ProfileFact,
    SessionSummary,
)

__all__ = [
    "Add",
    "Extraction",
    "ExtractionReport",
    "FactExtractor",
    "Facts",
    "KnownFact",
    "Limits",
    "MemoryExtractor",
    "Operation",
    "Profile",
    "ProfileFact",
    "SessionSummary",
    "Summarizer",
    "Summary",
    "Supersede",
    "Turn",
    "Update",
    "Usage",
]
