"""Facts: what turns say of a person, drawn by an extractor, merged with what is known, audited."""

from adkpg.facts.extractor import MemoryExtractor
from adkpg.facts.llm import FactExtractor
from adkpg.facts.service import Facts

__all__ = ["FactExtractor", "Facts", "MemoryExtractor"]
