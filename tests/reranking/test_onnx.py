"""The local cross-encoder, on a tiny real one."""

import asyncio
import math
from pathlib import Path

import pytest

from adkpg.errors import ConfigurationError, ModelError, ModelUnavailable
from adkpg.reranking import OnnxReranker, Reranker
from tests.fakes.cross_encoder import export

PASSAGES = ["rain and tea", "the bike is in the shed", "a red bike", "", "shed"]


def share(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


SCORES = [share(-1.5), share(0.5), share(-0.5), share(-1.5), share(-0.5)]


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("place", ["model.onnx", "onnx/model.onnx"])
async def test_it_scores_each_pair(tmp_path: Path, outputs: int, place: str) -> None:
    export(tmp_path, outputs=outputs, place=place)
    for path in (tmp_path, str(tmp_path), tmp_path / place):
        reranker = OnnxReranker(path, batch_size=2, threads=1)
        assert isinstance(reranker, Reranker)
        found = await reranker.scores("which bike is in the shed", PASSAGES)
        assert found == pytest.approx(SCORES), "in the order of the passages"
    assert await reranker.scores("bike", []) == []


async def test_long_texts_lone_surrogates_and_models_without_types(tmp_path: Path) -> None:
    export(tmp_path)
    reranker = OnnxReranker(tmp_path, max_tokens=16)
    await reranker.warm()
    found = await reranker.scores("bike " * 100_000, ["bike " * 100_000, "\udc80 tea"])
    assert found == pytest.approx([share(-0.5), share(-1.5)])
    export(tmp_path / "bare", types=False)
    assert len(await OnnxReranker(tmp_path / "bare").scores("bike", ["bike"])) == 1


async def test_several_loops_and_tasks_share_one(tmp_path: Path) -> None:
    export(tmp_path)
    reranker = OnnxReranker(tmp_path)

    async def ask() -> list[list[float]]:
        return await asyncio.gather(*(reranker.scores("bike shed", PASSAGES) for _ in range(4)))

    here = await ask()
    there = await asyncio.to_thread(asyncio.run, ask())
    assert here == there
    assert all(found == pytest.approx(SCORES) for found in here)


async def test_what_is_missing_or_broken_is_a_sentence(tmp_path: Path) -> None:
    for path, said in ((tmp_path, "model.onnx"), (tmp_path / "none", "model.onnx")):
        with pytest.raises(ModelUnavailable, match=said):
            await OnnxReranker(path).scores("bike", PASSAGES)
    export(tmp_path)
    (tmp_path / "tokenizer.json").rename(tmp_path / "elsewhere.json")
    with pytest.raises(ModelUnavailable, match=r"tokenizer\.json"):
        await OnnxReranker(tmp_path).warm()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        await OnnxReranker(tmp_path).warm()
    export(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        await OnnxReranker(tmp_path).warm()
    export(tmp_path, outputs=3)
    with pytest.raises(ModelError, match="3 numbers"):
        await OnnxReranker(tmp_path).scores("bike", PASSAGES)
    for options in ({"batch_size": 0}, {"max_tokens": 7}):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            OnnxReranker(tmp_path, **options)
