"""The search lab shows what searches return, why, and what they leave out."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.errors import ConfigurationError
from adkpg.memory.filters import SearchFilters
from adkpg.memory.records import Memory
from adkpg.memory.search.hits import Reason
from adkpg.tooling.console import create_console
from adkpg.tooling.console.page import HERE
from adkpg.tooling.evaluation import evaluate_stored, parsed
from adkpg.tooling.models import Models
from tests.fakes.browser import Browser
from tests.fakes.conversation import entry, said
from tests.fakes.toys import ToyEmbedder

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
PLACE: dict[str, Any] = {"app": "app", "user": "ana"}
QUERY = "where does the kitten sleep?"


@pytest.fixture(autouse=True)
async def stored(memory: PgVectorMemoryService) -> None:
    texts = {
        "basket": "the kitten sleeps in a basket",
        "sofa": "a kitten was on the sofa",
        "car": "the automobile is in the garage",
        "again": "the kitten sleeps in a basket!",
    }
    await memory.add_memory(
        **ANA,
        memories=[
            entry(text, name, timestamp=f"2026-01-0{day}T00:00:00+00:00")
            for day, (name, text) in enumerate(texts.items(), 1)
        ],
    )
    gone = Memory(
        id="gone",
        content=entry("the kitten moved out").content,
        expires_at="2026-01-01T00:00:00+00:00",
    )
    await memory.add_memory(**ANA, memories=[gone])


def columns(page: str) -> list[list[str]]:
    """The ids of the hits of each setting, in their order."""
    return [
        [html.unescape(each) for each in re.findall(r'data-memory="([^"]*)"', column)]
        for column in page.split('<ol class="hits">')[1:]
    ]


async def test_hits_have_their_reasons(browser: Browser, memory: PgVectorMemoryService) -> None:
    page = await browser.text("/lab", **PLACE, q=QUERY)
    hits = await memory.search(**ANA, query=QUERY)
    assert columns(page) == [[hit.memory.id for hit in hits]]
    for word, idf in zip(hits[0].reason.lexemes, hits[0].reason.idfs, strict=True):
        assert f"{word} <span" in page
        assert f"{idf:.3f}".rstrip("0").rstrip(".") in page
    for title in ("score", "words", "cosine", "relevance", "recency", "importance"):
        assert f'<th scope="row">{title}</th>' in page
    rows = dict(re.findall(r'<th scope="row">(\w+)</th>(.*?)</tr>', page, re.DOTALL))
    for title in ("recency", "importance"):
        assert rows[title] == '<td></td><td class="n">\N{MULTIPLICATION SIGN}1</td>', "no bar"
    for title in ("score", "words", "cosine", "relevance"):
        assert "<svg" in rows[title]


async def test_the_second_setting_is_there_before_it_is_asked_for(browser: Browser) -> None:
    """A rule of the style sheet hides it until its box is ticked, without a script."""
    page = await browser.text("/lab", **PLACE)
    assert '<fieldset class="second"><legend>Setting B</legend>' in page
    assert 'name="b_mode"' in page
    styles = (HERE / "static" / "console.css").read_text("utf-8")
    assert 'form:has([name="compare"]:not(:checked)) .second { display: none; }' in styles


async def test_a_hit_that_the_app_shares_leads_to_it(
    browser: Browser, memory: PgVectorMemoryService
) -> None:
    await memory.add_memory(app_name="app", user_id=None, memories=[entry("we sell zebras", "z")])
    page = html.unescape(await browser.text("/lab", **PLACE, q="zebras"))
    address = "/memory?app=app&user=ana&memory=z"
    assert f'href="{address}"' in page
    led = await browser.client.get(address)
    assert (led.status_code, led.headers["location"]) == (303, "/memory?app=app&memory=z")
    assert "we sell zebras" in await browser.text("/memory", app="app", memory="z")
    assert (await browser.get("/memory", **PLACE, memory="zz")).status_code == 400


class Judge:
    """Likes what is long, or breaks."""

    def __init__(self, model: str, *, broken: bool = False) -> None:
        self.model = model
        self._broken = broken

    async def scores(self, question: str, passages: list[str]) -> list[float]:
        if self._broken:
            raise ValueError("no")
        return [len(passage) - 100 for passage in passages]


async def test_a_rerankers_scores_and_failures_are_shown(
    database: Database,
    memory: PgVectorMemoryService,
    embedder: ToyEmbedder,
    browse: Callable[..., Browser],
) -> None:
    reranked = PgVectorMemoryService(database, embedder=embedder, reranker=Judge("long"))
    broken = PgVectorMemoryService(
        database, embedder=embedder, reranker=Judge("broken", broken=True)
    )
    compared = {"reranked": reranked, "broken": broken}
    browser = browse(create_console(database, memory=memory, compared=compared))
    asked = {**PLACE, "q": QUERY, "compare": 1}
    page = await browser.text("/lab", **asked, a_model="reranked", b_model="broken")
    here, there = page.split('<ol class="hits">')[1:]
    hits = await reranked.search(**ANA, query=QUERY)
    assert columns(page)[0] == [hit.memory.id for hit in hits]
    assert here.count('<th scope="row">reranker</th>') == len(hits) > 1
    for hit in hits:
        assert f'<td class="n">{hit.reason.rerank:g}</td>' in here
    assert '<th scope="row">reranker</th>' not in there
    said = html.unescape(page)
    assert "Not reranked: Reranker 'broken' failed with ValueError" in said
    assert "Not reranked: Reranker 'long'" not in said


def test_no_reason_is_left_out() -> None:
    """A search may get further ones."""
    shown = (HERE / "templates" / "lab.html").read_text("utf-8") + (HERE / "lab.py").read_text(
        "utf-8"
    )
    for field in fields(Reason):
        if field.name != "span":  # where the passage is, which is shown
            assert re.search(rf"(why|reason)\.{field.name}\b", shown), field.name


async def test_neighbouring_turns_are_shown(
    browser: Browser, memory: PgVectorMemoryService
) -> None:
    turns = [said("shall we adopt the zebra?", "e1"), said("gladly", "e2", author="guide")]
    await memory.add_events_to_memory(**ANA, session_id="s", events=turns)
    page = await browser.text("/lab", **PLACE, q="zebra", a_neighbours=1)
    assert "neighbouring turns, whose words count too" in page
    assert "</span> gladly" in page


async def test_two_settings_show_what_two_searches_return(
    browser: Browser, memory: PgVectorMemoryService
) -> None:
    page = await browser.text(
        "/lab",
        **PLACE,
        q=QUERY,
        compare=1,
        a_mode="text",
        b_mode="vector",
        b_top_k=2,
        b_half_life="1d",
        b_min_relevance="0.1",
        kinds="note",
    )
    filters = SearchFilters(kinds=["note"])
    first = await memory.search(**ANA, query=QUERY, mode="text", filters=filters)
    second = await memory.search(
        **ANA,
        query=QUERY,
        mode="vector",
        top_k=2,
        half_life=timedelta(days=1),
        min_relevance=0.1,
        filters=filters,
    )
    ids = [[hit.memory.id for hit in found] for found in (first, second)]
    assert columns(page) == ids
    moved = re.findall(r'class="moved (\w+)"', page)
    stayed = page.count('<span class="dim">=</span>')
    assert len(moved) + stayed == len(first) + len(second)
    only = set(ids[0]) ^ set(ids[1])
    assert moved.count("new") == len(only)


async def test_what_was_left_out_has_its_rule(browser: Browser) -> None:
    page = html.unescape(
        await browser.text(
            "/lab", **PLACE, q=QUERY, a_top_k=1, after="2026-01-02", before="2026-01-09"
        )
    )
    cut = re.findall(r'<tr class="cut">.*?memory=(\w+)">.*?</td><td>(.*?)</td>', page)
    rules = dict(cut)
    assert rules["sofa"] == "comes after the best 1 (top_k)"
    assert rules["basket"] == "is cut by the filter of the earliest time"
    assert rules["gone"].startswith("ended at")
    assert "car" not in rules, "it has nothing of the question"
    strict = html.unescape(
        await browser.text("/lab", **PLACE, q=QUERY, a_mode="text", a_min_relevance="0.9")
    )
    assert "is below min_relevance 0.9" in strict
    folded = html.unescape(await browser.text("/lab", **PLACE, q=QUERY))
    same = '<a href="/memory?app=app&user=ana&memory=again"><bdi>again</bdi></a>'
    assert f"says the same as {same}" in folded
    near = '<a href="/memory?app=app&user=ana&memory=basket"><bdi>basket</bdi></a>'
    assert f"1 that says the same is folded into it: {near}</span>" in folded
    small = html.unescape(await browser.text("/lab", **PLACE, q=QUERY, a_max_tokens=9))
    assert "does not fit the budget of tokens" in small


async def test_saved_questions_measure_recall(
    browser: Browser, memory: PgVectorMemoryService
) -> None:
    form = await browser.token("/lab", **PLACE, q=QUERY)
    saved = await browser.post(
        "/lab/save", form_token=form, **PLACE, q=QUERY, **{"evidence-1": "again", "more": "sofa"}
    )
    assert saved.status_code == 303
    await browser.post(
        "/lab/save", form_token=form, **PLACE, q="who drives?", **{"evidence-2": "no such"}
    )
    await browser.post("/lab/save", form_token=form, **PLACE, q="what is her phone number?")
    page = html.unescape(await browser.text("/lab", **PLACE, evaluate=1))
    file = json.loads((await browser.get("/lab/questions.json", **PLACE)).text)
    assert file[0] == {"q": QUERY, "evidence": ["again", "sofa"]}
    assert [len(each["evidence"]) for each in file] == [2, 1, 0]
    found = await evaluate_stored(
        parsed(file), memory=memory, **ANA, modes=("hybrid", "vector", "text")
    )
    for report in found.reports.values():
        for name in ("recall@10", "MRR"):
            mean = f"{report.estimates[name].mean:.3f}".rstrip("0").rstrip(".")
            assert f"<strong>{mean}</strong>" in page
    (ids,) = [re.findall(r'name="question" value="([^"]+)"', page)]
    assert len(ids) == 3
    await browser.post("/lab/delete", form_token=form, **PLACE, question=ids[0])
    assert len(json.loads((await browser.get("/lab/questions.json", **PLACE)).text)) == 2
    await browser.post("/lab/delete", form_token=form, **PLACE, question="nonsense")
    assert (await browser.post("/lab/save", form_token=form, **PLACE, q=" ")).status_code == 400


async def test_a_wrong_setting_is_one_sentence(browser: Browser) -> None:
    for wrong in (
        {"a_mode": "x"},
        {"a_top_k": "0"},
        {"a_top_k": "x"},
        {"a_min_relevance": "7"},
        {"a_min_relevance": "-0.1"},
        {"a_min_relevance": "nan"},
        {"a_half_life": "x"},
        {"a_half_life": "-1d"},
        {"a_max_tokens": "-1"},
        {"a_model": "x"},
        {"kinds": "x"},
        {"after": "x"},
    ):
        answer = await browser.get("/lab", **PLACE, q="a", **wrong)
        assert answer.status_code == 400, wrong
        assert 'role="alert"' in answer.text
    assert (await browser.get("/lab", q="a")).status_code == 400


async def test_two_models_are_compared_side_by_side(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> None:
    """The vectors of both count, whichever the app is searched with."""
    new = PgVectorMemoryService(
        database, embedder=ToyEmbedder("new", meanings=("kitten garage", "basket sofa"))
    )
    services = {"toy": memory, "new": new}
    browser = browse(create_console(database, memory=memory, compared={"new": new}))
    empty = await browser.text("/lab", **PLACE, compare=1)
    assert re.findall(r"<option(?: selected)?>(toy|new)<", empty) == ["toy", "new"] * 2
    asked: dict[str, Any] = {
        **PLACE,
        "q": QUERY,
        "compare": 1,
        "b_model": "new",
    }
    page = html.unescape(await browser.text("/lab", **asked))
    (why,) = re.findall(r'<p class="mark">(.*?)</p>', page)
    assert "No memory here has a vector of 'new', so words alone answer: adkpg reembed" in why
    assert new.embedder is not None
    await Models(database).reembed(new.embedder, app_name="app")
    for active, other in (("new", "toy"), ("toy", "new")):
        await Models(database).activate(active, app_name="app")
        page = html.unescape(await browser.text("/lab", **asked))
        found = {
            name: await service.search(**ANA, query=QUERY, inactive_model=True)
            for name, service in services.items()
        }
        assert found[active] == await services[active].search(**ANA, query=QUERY)
        assert columns(page) == [[hit.memory.id for hit in found[name]] for name in services]
        assert columns(page)[0] != columns(page)[1]
        assert page.count('<th scope="row">cosine</th>') == sum(map(len, found.values()))
        assert page.count("inactive_model=True") == 2
        (why,) = re.findall(r'<p class="mark">(.*?)</p>', page)
        assert why.startswith("Its vectors are compared all the same.")
        assert f"with model '{active}'" in why
        assert f"not with this service's '{other}'" in why
        moved = re.findall(r'class="moved (\w+)"', page)
        stayed = page.count('<span class="dim">=</span>')
        assert len(moved) + stayed == sum(map(len, found.values()))
    alone = await browser.text("/lab", **PLACE, q=QUERY)
    assert "inactive_model" not in alone
    with pytest.raises(ConfigurationError, match="name it otherwise"):
        create_console(database, memory=memory, compared={"toy": new})
