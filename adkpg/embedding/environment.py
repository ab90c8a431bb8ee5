"""The model of a service that the environment names."""

from pydantic import ValidationError

from adkpg.errors import ConfigurationError
from adkpg.settings import Settings


def settings_from_env() -> Settings:
    """Returns the settings; ``embedding_model`` and ``embedding_dimensions`` name a model.

    Raises:
      ConfigurationError: A variable cannot be read, such as dimensions below 1.
    """
    try:
        return Settings()
    except ValidationError as exc:
        wrong = [f"ADKPG_{str(each['loc'][0]).upper()} ({each['msg']})" for each in exc.errors()]
        raise ConfigurationError(f"Correct {', '.join(wrong)} in the environment.") from exc
