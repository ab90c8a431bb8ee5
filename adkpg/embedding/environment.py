"""The environment variables that choose a service's model."""

import os

from adkpg.errors import ConfigurationError


def model_from_env(default: str) -> str:
    """Return ``ADKPG_EMBEDDING_MODEL``, or the default if it is unset or empty."""
    return os.environ.get("ADKPG_EMBEDDING_MODEL") or default


def dimensions_from_env(default: int) -> int:
    """Return ``ADKPG_EMBEDDING_DIMENSIONS``, or the default if it is unset or empty.

    Raises:
        ConfigurationError: The variable is not a whole number of 1 or more.
    """
    value = os.environ.get("ADKPG_EMBEDDING_DIMENSIONS") or str(default)
    if not value.isdecimal() or int(value) < 1:
        raise ConfigurationError(
            f"ADKPG_EMBEDDING_DIMENSIONS is {value!r}; set it to the length of the model's "
            "vectors, a whole number such as 768."
        )
    return int(value)
