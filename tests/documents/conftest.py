"""Documents of a memory service with a toy embedder."""

import pytest

from adkpg import PgVectorMemoryService
from adkpg.documents.service import Documents


@pytest.fixture
def documents(memory: PgVectorMemoryService) -> Documents:
    return Documents(memory)
