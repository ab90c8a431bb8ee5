"""The model of a service that the environment names."""

from pydantic import ValidationError

from adkpg.errors import ConfigurationError
from adkpg.settings import Settings


def model_from_env(default: str) -> str:
    """Returns ``ADKPG_EMBEDDING_MODEL``, or the default if it is unset or empty."""
    return _settings().embedding_model or default


def dimensions_from_env(default: int) -> int:
    """Returns ``ADKPG_EMBEDDING_DIMENSIONS``, or the default if it is unset or empty.

    Raises:
     ConfigurationError: The variable is not a whole number of 1 or more.
    """
    return _settings().embedding_dimensions or default


def _settings() -> Settings:
    try:
        return Settings()
    except ValidationError as exc:
        wrong = [f"ADKPG_{str(each['loc'][0]).upper()} ({each['msg']})" for each in exc.errors()]
        raise ConfigurationError(f"Correct {', '.join(wrong)} in the environment.") from exc
