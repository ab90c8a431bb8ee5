"""What people run: commands, the console, moving, backups, figures, evaluation, tests.

Nothing that an app's process runs imports it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adkpg.tooling import (  # noqa: F401 - so that type checkers know adkpg.tooling.models
        console,
        evaluation,
        models,
        operations,
        transfer,
    )
else:
    _PACKAGES = ("console", "evaluation", "models", "operations", "testing", "transfer")

    def __getattr__(name):
        if name in _PACKAGES:
            return import_module(f"adkpg.tooling.{name}")
        raise AttributeError(f"module 'adkpg.tooling' has no attribute {name!r}")

    def __dir__():
        return [*_PACKAGES]
