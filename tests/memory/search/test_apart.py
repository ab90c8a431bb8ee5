"""Two scopes that are asked apart, as on a cluster, rank as one statement ranks them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from adkpg import Database, Hit, PgVectorMemoryService, Settings
from adkpg.database.installation import Installation
from adkpg.database.runner import Runner
from adkpg.errors import Busy, DatabaseError, DatabaseUnavailable, ReadOnly
from adkpg.keys import APP_WIDE
from adkpg.memory.filters import SearchFilters
from adkpg.memory.search.options import MODES, Mode
from tests.fakes.conversation import USER, entry
from tests.fakes.ranked_stories import NOW, QUESTIONS, WORDS, BagEmbedder, remember

PAGES = [
    f"{first} {second} {first} of the {WORDS[n % 7]}"
    for n, (first, second) in enumerate(
        (first, second) for first in WORDS[:9] for second in WORDS[3:12]
    )
]
OPTIONS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "many": {"top_k": 60},
    # Of so many all are candidates, of fewer the nearest of each scope, however old.
    "that fade": {"half_life": timedelta(weeks=20), "top_k": 170},
    "of some authors": {"filters": SearchFilters(authors=("user", "handbook"))},
    "to be gathered": {"gather": True},
}


class Distributed(Installation):
    """One that says so, and is not."""

    async def is_distributed(self) -> bool:
        return True


class Apart(Database):
    """Its searches ask each scope by itself."""

    def __init__(self, url: str, settings: Settings | None = None, run: type[Runner] = Runner):
        super().__init__(url, settings=settings)
        self.installation = Distributed(self.connections, auto_upgrade=False)
        self.run = run(self.connections, self.installation)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("known", "common"),
    [("en", 0), ("zh", 0), ("en", 1)],
    ids=["a language it knows", "one it does not", "all are near each other"],
)
async def test_the_same_is_found_in_the_same_order_with_the_same_reasons(
    database: Database, database_url: str, known: str, common: float, mode: Mode
) -> None:
    embedder = BagEmbedder((known,), common)
    together = PgVectorMemoryService(database, embedder=embedder)
    await remember(together)
    await together.add_memory(
        app_name="app",
        user_id=None,
        memories=[entry(page, author="handbook", timestamp=NOW.isoformat()) for page in PAGES],
    )
    shared = 0
    async with Apart(database_url) as asked_apart:
        apart = PgVectorMemoryService(asked_apart, embedder=embedder)
        for options in OPTIONS.values():
            for query in QUESTIONS:
                asked = {**USER, "query": query, "mode": mode, "now": NOW, **options}
                whole, parts = await together.search(**asked), await apart.search(**asked)
                assert [hit.memory.id for hit in parts] == [hit.memory.id for hit in whole], asked
                assert list(map(told, parts)) == [pytest.approx(told(hit)) for hit in whole]
                for one, other in zip(parts, whole, strict=True):
                    assert one.reason.lexemes == other.reason.lexemes
                    assert one.reason.idfs == pytest.approx(other.reason.idfs)
                shared += any(hit.memory.author == "handbook" for hit in whole)
    assert shared, "or one scope alone was ranked"


def told(hit: Hit) -> list[float]:
    """What a hit says of its score."""
    reason = hit.reason
    return [
        *(hit.score, reason.lexical, reason.cosine or 0.0, reason.recency, reason.importance),
        *(reason.date, reason.speaker, reason.newer),
    ]


class Failing(Apart):
    """What it reads of the app meets a fault first.

    Args:
      url: Of the database.
      settings: As for `Database`.
      fault: Raises, or waits.
    """

    def __init__(
        self, url: str, settings: Settings, fault: Callable[[], Awaitable[object]]
    ) -> None:
        super().__init__(url, settings)
        self.run = FailingRunner(self, fault)
        self.asked: list[str] = []


class FailingRunner(Runner):
    def __init__(self, failing: Failing, fault: Callable[[], Awaitable[object]]) -> None:
        super().__init__(failing.connections, failing.installation)
        self._failing = failing
        self._fault = fault

    async def fetch(self, query: Any, **options: Any) -> Any:
        if "top_k" in query.parameters:  # what speaks for memories; then the best are read
            self._failing.asked.append(query.parameters["user_id"])
            if query.parameters["user_id"] == APP_WIDE:
                await self._fault()
        return await super().fetch(query, **options)


def raising(*faults: Exception | None) -> Callable[[], Awaitable[object]]:
    """One fault after the other, None is none, and then none."""
    left = list(faults)

    async def fault() -> None:
        if left and (exc := left.pop(0)) is not None:
            raise exc

    return fault


AWAY = DatabaseUnavailable("It is away; try again.")
PLACE: dict[str, Any] = {**USER, "query": "a tea", "mode": "text"}


async def test_the_users_own_memories_answer_if_the_apps_node_is_away(
    database_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adkpg.memory.search.search._LONGEST_PAUSE_S", 300.0)
    monkeypatch.setattr("adkpg.outages.breaker._FIRST_PAUSE_S", 300.0)
    async with Failing(database_url, Settings(), raising(AWAY)) as failing:
        memory = PgVectorMemoryService(failing)
        await _remember_tea(memory)
        for asked in (["user", APP_WIDE], ["user"], ["user"]):
            failing.asked.clear()
            (hit,) = await memory.search(**PLACE, neighbours=1)
            assert hit.memory.id == "own"
            assert hit.reason.own_alone == str(AWAY)
            assert failing.asked == asked, "it is left alone for a while"
        assert await memory.search(**{**PLACE, "app_name": "another"}) == []
        assert failing.asked[-2:] == ["user", APP_WIDE], "what another app knows is asked"
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 1, "it is said once"


async def test_it_is_asked_again_and_told_of_a_second_outage(
    database_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adkpg.outages.breaker._FIRST_PAUSE_S", 0.0)
    async with Failing(database_url, Settings(), raising(AWAY, AWAY, None, AWAY)) as failing:
        memory = PgVectorMemoryService(failing)
        await _remember_tea(memory)
        found = [{hit.memory.id for hit in await memory.search(**PLACE)} for _ in range(5)]
    both = {"own", "of the app"}
    assert found == [{"own"}, {"own"}, both, {"own"}, both]
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 2, "once an outage"


async def test_a_fault_of_one_search_takes_nothing_from_those_that_are_under_way(
    database_url: str,
) -> None:
    admitted, failed, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fault() -> None:
        if failing.asked.count(APP_WIDE) == 1:
            await admitted.wait()
            raise AWAY
        admitted.set()
        await answered.wait()

    class Slower(FailingRunner):
        async def fetch(self, query: Any, **options: Any) -> Any:
            is_second = "top_k" in query.parameters and failing.asked.count("user") == 1
            rows = await super().fetch(query, **options)
            if is_second and query.parameters["user_id"] == "user":
                await failed.wait()
                answered.set()
            return rows

    async with Failing(database_url, Settings(), fault) as failing:
        failing.run = Slower(failing, fault)
        memory = PgVectorMemoryService(failing)
        await _remember_tea(memory)
        first = asyncio.create_task(memory.search(**PLACE))
        await asyncio.sleep(0)
        second = asyncio.create_task(memory.search(**PLACE))
        (hit,) = await first
        assert hit.reason.own_alone == str(AWAY)
        failed.set()
        assert {hit.memory.id for hit in await second} == {"own", "of the app"}


async def test_a_search_that_is_cancelled_leaves_nothing(database_url: str) -> None:
    asked, released = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        asked.set()
        await released.wait()

    async with Failing(database_url, Settings(), hang) as failing:
        memory = PgVectorMemoryService(failing)
        await _remember_tea(memory)
        before = asyncio.all_tasks()
        search = asyncio.create_task(memory.search(**PLACE))
        await asked.wait()
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        if left := asyncio.all_tasks() - before:  # the driver asks the server to cancel
            await asyncio.wait(left, timeout=10)
        assert asyncio.all_tasks() == before, "or it hangs, too"
        released.set()
        assert len(await memory.search(**PLACE)) == 2, "nothing is held against the app's node"


async def test_a_node_that_hangs_is_waited_for_no_longer_than_a_search_may_take(
    database_url: str,
) -> None:
    settings = Settings.model_validate({"search_timeout_s": 0.05})
    async with Failing(database_url, settings, asyncio.Event().wait) as failing:
        memory = PgVectorMemoryService(failing)
        await _remember_tea(memory)
        (hit,) = await memory.search(**PLACE)
    assert hit.memory.id == "own"
    assert hit.reason.own_alone is not None
    assert "did not come within 0.05 s" in hit.reason.own_alone


async def test_callers_who_give_up_first_find_out_that_the_apps_node_hangs(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    gave_up = 0
    settings = Settings.model_validate({"search_timeout_s": 600.0})
    async with Failing(database_url, settings, asyncio.Event().wait) as failing:
        memory = PgVectorMemoryService(failing)
        await _remember_tea(memory)
        for _ in range(30):
            try:
                async with asyncio.timeout(0.4):
                    (hit,) = await memory.search(**PLACE)
                break
            except TimeoutError:
                gave_up += 1
    assert 0 < gave_up < 30
    assert (
        hit.reason.own_alone
        == "the memories of app 'app' itself did not come before callers gave up."
    )
    assert caplog.text.count("without the memories that app 'app' shares") == 1


async def test_waiting_for_a_connection_is_not_held_against_the_apps_node(
    database_url: str,
) -> None:
    settings = Settings.model_validate(
        {"pool_size": 1, "pool_timeout_s": 60, "search_timeout_s": 1}
    )
    holding = asyncio.Event()
    holders: list[asyncio.Task[None]] = []

    async def hold() -> None:
        async with failing.run.transaction():
            holding.set()
            await asyncio.sleep(1.5 * settings.search_timeout_s)

    async def queue() -> None:
        if not holders:
            holders.append(asyncio.create_task(hold()))
            await holding.wait()

    async with Failing(database_url, settings, queue) as failing:
        memory = PgVectorMemoryService(failing)
        await _remember_tea(memory)
        assert {hit.memory.id for hit in await memory.search(**PLACE)} == {"own", "of the app"}
        await holders[0]


async def test_a_node_that_hangs_keeps_no_connection_from_the_users_own(
    database_url: str,
) -> None:
    settings = Settings.model_validate(
        {"pool_size": 1, "pool_timeout_s": 600, "search_timeout_s": 0.2}
    )

    class Hanging(Runner):
        async def fetch(self, query: Any, **options: Any) -> Any:
            if "top_k" in query.parameters and query.parameters["user_id"] == APP_WIDE:
                return await self.transact(
                    lambda _: asyncio.Event().wait(), attempt=options["attempt"]
                )
            return await super().fetch(query, **options)

    async with Apart(database_url, settings, Hanging) as hanging:
        memory = PgVectorMemoryService(hanging)
        await _remember_tea(memory)
        async with asyncio.timeout(60):  # of 500 in turn, each for its limit, it would be 100
            answers = await asyncio.gather(*(memory.search(**PLACE) for _ in range(500)))
        for (hit,) in answers:
            assert hit.memory.id == "own"
            assert hit.reason.own_alone is not None


@pytest.mark.parametrize("kind", [Busy, DatabaseError, ReadOnly])
async def test_what_else_the_apps_node_says_is_an_error(
    database_url: str, kind: type[DatabaseError]
) -> None:
    wrong = kind("It is wrong; mend it.")
    async with Failing(database_url, Settings(), raising(wrong)) as failing:
        memory = PgVectorMemoryService(failing)
        await _remember_tea(memory)
        with pytest.raises(kind, match="mend it"):
            await memory.search(**PLACE)
        assert len(await memory.search(**PLACE)) == 2, "the next one asks it again"


async def test_near_duplicates_do_not_ask_again(database_url: str) -> None:
    async with Failing(database_url, Settings(), raising()) as apart:
        memory = PgVectorMemoryService(apart)
        same = [entry("some tea", f"same {number}") for number in range(20)]
        other = [entry(f"tea and {word}", word) for word in WORDS[:15]]
        await memory.add_memory(**USER, memories=[*same, *other])
        assert len(await memory.search(**PLACE, top_k=10)) == 10
        assert sorted(apart.asked) == sorted(["user", APP_WIDE])


async def _remember_tea(memory: PgVectorMemoryService) -> None:
    await memory.add_memory(**USER, memories=[entry("green tea", "own")])
    of_app: dict[str, Any] = {"app_name": "app", "user_id": None}
    await memory.add_memory(**of_app, memories=[entry("black tea", "of the app")])
