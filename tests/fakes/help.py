"""The commands and the pages of their help, as docs/generate.py finds them."""

import importlib.util
from types import ModuleType

import click

from adkpg.tooling.cli import main
from tests.fakes.checkout import CHECKOUT


def _load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "docs_generate", CHECKOUT / "docs" / "generate.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = _load_generator()
COMMANDS: dict[str, tuple[click.Command, click.Context]] = {
    " ".join(path): (command, context)
    for path, command, context in GENERATE.commands(main, "adkpg")
}
