"""Failure: what a command says when the library raises."""

from typing import Any

import click
from pydantic import ValidationError

from adkpg.errors import AdkpgError
from adkpg.settings import Settings


class SentenceGroup(click.Group):
    """A group whose commands answer adkpg's errors with their sentence on stderr and exit code 1.

    Other exceptions are defects and keep their traceback.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the chosen command."""
        try:
            return super().invoke(ctx)
        except AdkpgError as exc:
            raise click.ClickException(str(exc)) from exc
        except ValidationError as exc:
            if exc.title != Settings.__name__:
                raise
            raise click.ClickException(_sentence(exc)) from exc


def _sentence(exc: ValidationError) -> str:
    """Names the variables that pydantic refused, without their values: one may be a password."""
    prefix = Settings.model_config.get("env_prefix", "")
    wrong = "; ".join(
        f"{prefix}{'_'.join(map(str, error['loc']))}".upper() + f": {error['msg']}"
        for error in exc.errors(include_input=False, include_url=False)
    )
    return f"The environment holds what adkpg cannot use ({wrong}); correct it."
