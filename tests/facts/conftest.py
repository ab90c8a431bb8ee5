"""Facts over a real database, with a model that follows a script."""

import pytest

from adkpg import PgVectorMemoryService
from adkpg.facts.llm import FactExtractor
from adkpg.facts.service import Facts
from tests.fakes.facts_llm import FactsLlm, Script


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def extractor(script: Script) -> FactExtractor:
    return FactExtractor(FactsLlm.following(script))


@pytest.fixture
async def facts(memory: PgVectorMemoryService, extractor: FactExtractor) -> Facts:
    """Facts of an app that has extraction switched on."""
    switched_on = Facts(memory, extractor=extractor)
    await switched_on.enable("app")
    return switched_on
