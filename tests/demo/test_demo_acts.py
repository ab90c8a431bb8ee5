"""``adkpg demo``: three processes that only the database joins."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text as sql

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.embedding import Embedder, LocalEmbedder
from adkpg.tooling.demo.act import Act
from adkpg.tooling.demo.line import (
    Called,
    Checked,
    Line,
    Requested,
    Rows,
    Said,
    Searched,
    Started,
    State,
)
from adkpg.tooling.demo.model import UNKNOWN, OfflineModel
from adkpg.tooling.demo.process import run
from adkpg.tooling.demo.rows import APP
from adkpg.tooling.demo.story import STORY, WORD_STORY, Story
from tests.fakes.demo import Demo, environment, postmasters
from tests.fakes.signals import interrupts_heard, interrupts_ignored

FACT = "I'm allergic to peanuts."
ANSWER = f'You told me: "{FACT}"'


def test_the_whole_demo_on_the_embedded_server(demo: Demo, embedded_dir: Path) -> None:
    variables = {"ADKPG_EMBEDDED_DIR": str(embedded_dir)}
    outcome = demo(**variables)
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert "embedded Postgres that comes with adkpg[embedded]" in outcome.words
    assert "a small offline one that answers only from its input" in outcome.words
    assert "FAILED" not in outcome.out
    assert len(set(re.findall(r"process (\d+)", outcome.out))) == 3
    assert "the model receives 13 messages" in outcome.words, "the resumed session's 12 and one"
    assert "calls load_memory" in outcome.words
    assert outcome.words.count(f"assistant {ANSWER}") == 2, "load_memory, preload_memory"
    assert re.search(r"^memories +6 ", outcome.out, re.MULTILINE)
    assert re.search(r"^\d+ more tables are empty\.$", outcome.out, re.MULTILINE)
    assert not re.search(r"^\w+ +0 ", outcome.out, re.MULTILINE)
    assert not postmasters(embedded_dir), "no server is left behind"

    (shown,) = re.findall(r"^  (.* memory search .*)$", outcome.out, re.MULTILINE)
    typed = subprocess.run(
        shlex.split(shown), env=environment(**variables), capture_output=True, text=True, check=True
    )
    assert FACT in typed.stdout, "what to type next works as it is printed"

    (shown,) = re.findall(r"^  (.* forget .*)$", outcome.out, re.MULTILINE)
    forgotten = subprocess.run(
        [*shlex.split(shown), "--yes"],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r" events +20$", forgotten.stdout, re.MULTILINE)
    assert not postmasters(embedded_dir)


def test_each_act_in_a_process_of_its_own(demo: Demo, database_url: str) -> None:
    acts = {
        number: demo("--act", str(number), "--user", "ada", ADKPG_DATABASE_URL=database_url)
        for number in (1, 2, 3)
    }
    assert [outcome.code for outcome in acts.values()] == [0, 0, 0]
    first, second, third = (outcome.lines for outcome in acts.values())

    process_ids = {
        act[0].process_id for act in (first, second, third) if isinstance(act[0], Started)
    }
    assert len(process_ids) == 3

    told = [line.arguments["fact"] for line in first if isinstance(line, Called)]
    assert told == list(STORY.told), "each fact by one tool call"
    (state,) = (line.values for line in first if isinstance(line, State))
    assert state["notes"] == list(STORY.told)
    assert state["user:facts_told"] == len(STORY.told)
    assert {"app:facts_told", "channel", "last_answer"} <= set(state)
    assert not any(key.startswith("temp:") for key in state)

    assert [line.contents for line in second if isinstance(line, Requested)] == [13]
    assert "Biscuit" in [line.text for line in second if isinstance(line, Said)][-1]

    said = [line.text for line in third if isinstance(line, Said)]
    question = STORY.asked[0].text
    assert said == [question, ANSWER, question, ANSWER]
    assert [line.tool for line in third if isinstance(line, Called)] == ["load_memory"]
    assert [line.contents for line in third if isinstance(line, Requested)] == [1, 3, 2]
    (search,) = (line for line in third if isinstance(line, Searched))
    assert search.found[0].text == FACT
    assert search.found[0].lexical == 0
    assert search.found[0].cosine is not None
    assert search.found[0].cosine > 0.35
    assert all((hit.cosine or 0) < 0.25 for hit in search.found[1:])
    counts = {line.table: line.count for line in third if isinstance(line, Rows)}
    assert counts["sessions"] == 3
    assert counts["events"] == 20
    assert counts["memories"] == counts["memory_vectors"] == 6

    assert all(line.held for act in (first, second, third) for line in act if hasattr(line, "held"))
    assert sum(isinstance(line, Checked) for act in (first, second, third) for line in act) == 8


async def test_the_question_shares_no_word_with_what_was_said(database: Database) -> None:
    said = [*STORY.told, "user assistant", "Thank you, I have noted that."]
    statement = sql(
        "SELECT tsvector_to_array(to_tsvector('english', :said)) AS said,"
        " tsvector_to_array(to_tsvector('english', :asked)) AS asked"
    )
    engine = await database.engine()
    async with engine.connect() as connection:
        row = (
            await connection.execute(
                statement, {"said": " ".join(said), "asked": STORY.asked[0].text}
            )
        ).one()
    assert {"allerg", "peanut"} <= set(row.said)
    assert {"snack", "harm"} <= set(row.asked)
    assert not set(row.said) & set(row.asked)


async def play(act: int, url: str, embedder: Embedder | None, story: Story) -> list[Line]:
    """Plays an act for ada on services of its own, within this process."""
    async with Database(url) as database:
        services = DatabaseSessionService(database), PgVectorMemoryService(database)
        played = Act(database, *services, OfflineModel(embedder=embedder), story, "ada").play(act)
        return [line async for line in played]


async def test_without_the_memory_row_it_does_not_know(
    database_url: str, database: Database
) -> None:
    await play(1, database_url, LocalEmbedder(), STORY)
    memory = PgVectorMemoryService(database)
    (hit, *_) = await memory.search(app_name=APP, user_id="ada", query="peanuts")
    await memory.delete_memory(app_name=APP, user_id="ada", memory_id=hit.memory.id)
    lines = await play(3, database_url, LocalEmbedder(), STORY)
    said = [line.text for line in lines if isinstance(line, Said)]
    question = STORY.asked[0].text
    assert said == [question, UNKNOWN, question, UNKNOWN]
    claims = {line.claim: line.held for line in lines if isinstance(line, Checked)}
    assert claims["The answer names peanuts."] is False
    assert claims["The best memory names peanuts."] is False


async def test_without_an_embedder_words_lead_to_the_memory(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    acts = [await play(number, database_url, None, WORD_STORY) for number in (1, 2, 3)]
    checked = [line for act in acts for line in act if isinstance(line, Checked)]
    assert checked
    assert [line.claim for line in checked if not line.held] == []
    assert [line.text for line in acts[2] if isinstance(line, Said)].count(ANSWER) == 2


def test_words_of_the_users_own(demo: Demo, database_url: str) -> None:
    outcome = demo(
        "--say",
        "My bike is in the shed. The gate's code is 4711.",
        "--say",
        "Bob's favourite colour is \x1b[31mred.",
        "--ask",
        "Where did I leave my bicycle?",
        "--ask",
        "What is the code of the gate?",
        "--ask",
        "What is my blood type?",
        ADKPG_DATABASE_URL=database_url,
    )
    assert outcome.code == 0, outcome.err
    assert outcome.words.count('assistant You told me: "My bike is in the shed."') == 3
    assert outcome.words.count('assistant You told me: "The gate\'s code is 4711."') == 3
    assert outcome.words.count(f"assistant {UNKNOWN}") == 3
    assert "\x1b" not in outcome.out, "what users say cannot steer the terminal"
    assert "--database-url" not in outcome.out.split("What to type next")[1]


def test_a_database_that_does_not_answer_is_one_sentence(demo: Demo) -> None:
    url = "postgresql://ada:secret@127.0.0.1:1/nowhere"
    outcome = demo("--database-url", url)
    assert outcome.code == 1
    assert outcome.err.startswith("Error: ")
    assert outcome.err.count("\n") == 1
    assert "secret" not in outcome.out + outcome.err


def test_an_act_out_of_turn_is_one_sentence(demo: Demo, database_url: str) -> None:
    outcome = demo("--act", "2", "--user", "nobody", ADKPG_DATABASE_URL=database_url)
    assert outcome.code == 1
    assert "'monday' of user 'nobody' is gone" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--say", "I live in Graz."), "--say needs a question"),
        (("--ask", " "), "need a text"),
    ],
)
def test_options_that_do_not_go_together(
    quick_demo: Demo, arguments: tuple[str, ...], sentence: str
) -> None:
    outcome = quick_demo(*arguments)
    assert outcome.code == 2
    assert sentence in outcome.err


@pytest.mark.program
def test_nothing_is_imported_while_an_act_begins() -> None:
    """An interrupt that comes as an import's lock is forgotten is lost by Python."""
    code = (
        "import sys; from adkpg.tooling.demo.screen import Screen\n"
        "shown = Screen(); shown.heading('Act')\n"
        "known = {*sys.modules}\n"
        "with shown.waiting('a process starts'): pass\n"
        "print(sorted({*sys.modules} - known))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert shown.stdout.splitlines()[-1] == "[]", shown.stderr


@pytest.mark.program
@pytest.mark.parametrize("after", ["Process 1", "calls note"])
def test_an_interrupt_is_clean(
    embedded_dir: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """Ctrl-C, while a process starts and while it talks to the embedded server."""
    # coverage's tracer clears a KeyboardInterrupt that comes while it looks up the greenlet.
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    with interrupts_heard():
        process = subprocess.Popen(
            [sys.executable, "-m", "adkpg", "demo"],
            env=environment(ADKPG_EMBEDDED_DIR=str(embedded_dir), PYTHONUNBUFFERED="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert any(after in line for line in process.stdout)
        os.kill(process.pid, signal.SIGINT)
        told = process.stdout.read()
        assert process.stderr.read().strip() == "Aborted!", told
    assert process.returncode == 1
    assert not postmasters(embedded_dir)


@pytest.mark.program
def test_an_act_that_is_left_ends_also_where_interrupts_are_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told to end by SIGINT, which programs under ``nohup`` inherit as ignored."""
    monkeypatch.setenv("ADKPG_CONNECT_TIMEOUT_S", "3600")
    with socket.create_server(("127.0.0.1", 0)) as silent, interrupts_ignored():
        port = silent.getsockname()[1]
        lines = run(["--act", "1", "--user", "ada"], f"postgresql://me@127.0.0.1:{port}/agents")
        assert isinstance(next(lines), Started)
        silent.settimeout(60)
        connection, _ = silent.accept()  # the act waits for an answer
        with connection:
            lines.close()  # type: ignore[attr-defined] # a generator
