"""What mkdocstrings asks while it reads the code: leaves out what is marked as internal."""

import importlib
import inspect
from typing import Any

from griffe import Class, Extension

from adkpg.interface.internal import is_internal


class Public(Extension):
    """Leaves out the methods that adkpg's own modules call of a public class."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Drops them from a class, once all that it has is known."""
        if cls.is_alias or not cls.path.startswith("adkpg."):
            return
        found = getattr(importlib.import_module(cls.module.path), cls.name, None)
        for name in [*cls.members]:
            if is_internal(inspect.getattr_static(found, name, None)):
                cls.del_member(name)
