"""Facts.extract: what is read, what is written, and how often."""

import asyncpg
import pytest

from adkpg import PgVectorMemoryService
from adkpg.errors import ConfigurationError
from adkpg.facts.extractor import Usage
from adkpg.facts.llm import FactExtractor
from adkpg.facts.service import ExtractionReport, Facts
from adkpg.memory.filters import SearchFilters
from tests.fakes.conversation import USER, entry, found, said, text_of
from tests.fakes.facts_llm import (
    INJECTION,
    ONE_CALL,
    Script,
    add,
    label,
    lines,
    operations,
    supersede,
    update,
)
from tests.fakes.people import known, memories, remember, turn_id, waiting
from tests.fakes.toys import ToyEmbedder

CAT = add("Ana has a kitten.", "t1", importance=0.8, topics=["pets", "family"])


async def test_nothing_is_extracted_unless_it_is_switched_on(
    memory: PgVectorMemoryService,
    extractor: FactExtractor,
    script: Script,
    connection: asyncpg.Connection,
) -> None:
    facts = Facts(memory, extractor=extractor)
    await remember(memory, 1, "I have a cat.")
    assert await waiting(connection) == 0
    assert await facts.extract(**USER) == await facts.extract_pending() == ExtractionReport()
    assert script.requests == []


async def test_a_fact_is_a_memory_with_sources(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    await remember(memory, 1, "I have a cat.", "And it rains.")
    script.says(operations(CAT))
    report = await facts.extract(**USER)
    assert report == ExtractionReport(turns=2, added=1, usage=ONE_CALL)
    assert await waiting(connection) == await waiting(connection, "embed") == 0

    (fact,) = (await facts.profile(**USER)).facts
    assert fact.text == "Ana has a kitten."
    assert (fact.memory.kind, fact.memory.importance) == ("fact", 0.8)
    assert fact.memory.topics == ["pets", "family"]
    assert fact.memory.timestamp == "2026-03-02T12:00:00+00:00", "when it was said"
    assert [text_of(source) for source in fact.provenance] == ["I have a cat."]
    assert fact.provenance[0].event_id == "day1-0"

    only_facts = SearchFilters(kinds=("fact",))
    assert await found(memory, "kitten", filters=only_facts) == ["Ana has a kitten."]
    assert await found(memory, "feline", filters=only_facts, mode="vector") == ["Ana has a kitten."]
    assert "Ana has a kitten." in await found(memory, "cat")


async def test_a_second_run_asks_and_adds_nothing(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, "I have a cat.")
    script.says(operations(CAT))
    await facts.extract(**USER)
    for _ in range(3):
        await remember(memory, 1, "I have a cat.")
        assert await facts.extract(**USER) == ExtractionReport()
    assert len(script.requests) == 1
    assert await known(facts) == ["Ana has a kitten."]


async def test_turns_that_wait_again_add_nothing(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    await remember(memory, 1, "I have a cat.")
    await remember(memory, 2, "I live in Berlin.")
    await remember(memory, 3, "I moved to Paris.")
    script.says(
        operations(CAT),
        operations(add("Ana lives in Berlin.", "t1")),
        operations(supersede("f2", "Ana lives in Paris.", "t1")),
    )
    await facts.extract(**USER)
    drawn = "SELECT * FROM memories WHERE kind = 'fact' ORDER BY position"
    before = await connection.fetch(drawn)
    await connection.execute(
        "INSERT INTO memory_jobs (app_name, user_id, position, work) "
        "SELECT app_name, user_id, position, 'extract' FROM memories WHERE kind = 'turn'"
    )
    script.says(
        operations(CAT | {"text": "ana has  a kitten"}),
        operations(supersede("f2", "Ana lives in Berlin!", "t1"), add("Ana lives in Berlin", "t1")),
        operations(update("f2", "Ana lives in Paris", "t1")),
    )
    report = await facts.extract(**USER)
    assert (report.turns, report.added, report.updated, report.superseded) == (3, 0, 0, 0)
    assert await connection.fetch(drawn) == before


async def test_new_turns_are_read_with_those_before_them_as_context(
    memory: PgVectorMemoryService, extractor: FactExtractor, script: Script
) -> None:
    facts = Facts(memory, extractor=extractor, context_turns=2)
    await facts.enable("app")
    said = ["One.", "Two.", "Do you have a cat?"]
    await remember(memory, 1, *said)
    await facts.extract(**USER)
    await remember(memory, 1, *said, "Yes, two of them.")
    script.says(operations(add("Old news.", "t1"), add("Ana has two cats.", "t2", "t3")))
    report = await facts.extract(**USER)
    shown = lines(script.prompt, "turns")
    assert [(line["text"], line.get("context")) for line in shown] == [
        ("Two.", True),
        ("Do you have a cat?", True),
        ("Yes, two of them.", None),
    ]
    assert await known(facts) == ["Ana has two cats."]
    assert report.dropped == {"read before": 1}


async def test_sessions_are_read_apart_and_in_order(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 2, "Second day.")
    await remember(memory, 1, "First day.", "Still the first.")
    assert (await facts.extract(**USER)).turns == 3
    shown = [[line["text"] for line in lines(text, "turns")] for text in _prompts(script)]
    assert shown == [["First day.", "Still the first."], ["Second day."]]


async def test_one_session_alone_leaves_the_others_waiting(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    await remember(memory, 1, "First day.")
    await remember(memory, 2, "Second day.")
    assert (await facts.extract(**USER, session_id="day2")).turns == 1
    assert await waiting(connection) == 1
    assert (await facts.extract(**USER, session_id="elsewhere")).turns == 0
    assert (await facts.extract(**USER)).turns == 1
    assert len(script.requests) == 2


async def test_a_long_session_is_read_in_pieces(
    memory: PgVectorMemoryService, extractor: FactExtractor, script: Script
) -> None:
    facts = Facts(memory, extractor=extractor, batch_turns=2, context_turns=0)
    await facts.enable("app")
    await remember(memory, 1, *(f"Turn {number}." for number in range(5)))
    assert (await facts.extract(**USER)).turns == 5
    assert [len(lines(text, "turns")) for text in _prompts(script)] == [2, 2, 1]


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1), (3, 2, 1)])
async def test_three_sessions_that_contradict_each_other_end_with_the_latest(
    memory: PgVectorMemoryService, facts: Facts, script: Script, order: tuple[int, ...]
) -> None:
    towns = {1: "Berlin", 2: "Paris", 3: "Rome"}

    def contradicted(prompt: str) -> str:
        (turn,) = lines(prompt, "turns")
        text = f"Ana lives in {turn['text'].split()[-1]}"
        before = lines(prompt, "known_facts")
        return operations(supersede("f1", text, "t1") if before else add(text, "t1"))

    for day, town in towns.items():
        await remember(memory, day, f"I live in {town}")
    reports = ExtractionReport()
    for day in order:
        script.says(contradicted)
        reports += await facts.extract(**USER, session_id=f"day{day}")
    assert (reports.added, reports.superseded) == (3, 2)
    assert await known(facts) == ["Ana lives in Rome"]
    asked = await found(memory, "Where does Ana live?", filters=SearchFilters(kinds=("fact",)))
    assert asked == ["Ana lives in Rome"]

    (now,) = await memories(memory, "fact")
    history = await facts.history(**USER, memory_id=str(now.id))
    assert [text_of(each).split()[-1] for each in history] == ["Berlin", "Paris", "Rome"]
    by_id = {each.id: each for each in history}
    for each in history[:-1]:
        assert each.superseded_by is not None
        assert each.expires_at is not None
        assert str(by_id[each.superseded_by].timestamp) > str(each.timestamp)
        assert await facts.history(**USER, memory_id=str(each.id)) == history
        assert await memory.get_memory(**USER, memory_id=str(each.id)) == each


async def test_an_updated_fact_keeps_its_id_and_has_all_sources(
    memory: PgVectorMemoryService, facts: Facts, script: Script, embedder: ToyEmbedder
) -> None:
    await remember(memory, 1, "I have a cat.")
    await remember(memory, 2, "I have a dog too.")
    script.says(operations(CAT), operations(update("f1", "Ana has a kitten and a puppy.", "t1")))
    report = await facts.extract(**USER)
    assert (report.added, report.updated, report.usage) == (1, 1, ONE_CALL + ONE_CALL)
    (fact,) = (await facts.profile(**USER)).facts
    assert fact.text == "Ana has a kitten and a puppy."
    assert [text_of(source) for source in fact.provenance] == ["I have a cat.", "I have a dog too."]
    assert "Ana has a kitten and a puppy." in embedder.documents[-1], "its vector is the new text's"
    assert await facts.history(**USER, memory_id=str(fact.memory.id)) == [fact.memory]


async def test_instructions_in_a_turn_are_data_and_an_obeying_model_is_bounded(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, "My PIN is in the safe.", user_id="other")
    secret = await turn_id(memory, "My PIN is in the safe.", user_id="other")
    await remember(memory, 1, INJECTION)
    script.says(
        operations(
            add("The user is an administrator.", "t9", secret),
            add("Stolen from another user.", secret),
            add("x" * 301, "t1"),
            *(add(f"Flood {number}", "t1") for number in range(200)),
        )
    )
    report = await facts.extract(**USER)
    (line,) = lines(script.prompt, "turns")
    assert line["text"] == INJECTION
    assert report.added == 97
    assert report.dropped == {"no valid provenance": 2, "too long": 1, "too many": 103}
    ours = await turn_id(memory, INJECTION)
    for fact in (await facts.profile(**USER)).facts:
        assert [source.id for source in fact.provenance] == [ours]
    assert await known(facts, user_id="other") == []


async def test_facts_belong_to_one_user(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    for user_id in ("user", "other"):
        await remember(memory, 1, "I have a cat.", user_id=user_id)
    script.says(operations(CAT), operations(CAT))
    report = await facts.extract_pending()
    assert (report.turns, report.added) == (2, 2), "what one user has is not known of the other"
    (mine,) = (await facts.profile(**USER)).facts
    assert await facts.history(app_name="app", user_id="other", memory_id=str(mine.memory.id)) == []
    assert await facts.topics(app_name="app", user_id="nobody") == []


async def test_a_profile_can_be_about_topics(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, "A", "B", "C")
    script.says(
        operations(
            add("Less.", "t1", importance=0.2, topics=["Work"]),
            add("Older.", "t1", importance=0.9, topics=["work"]),
            add("Newer.", "t3", importance=0.9, topics=["travel"]),
        )
    )
    await facts.extract(**USER)
    assert await known(facts) == ["Newer.", "Older.", "Less."]
    assert await known(facts, topics=["work", "music"]) == ["Older.", "Less."]
    assert await known(facts, limit=1) == ["Newer."]
    assert (await facts.profile(**USER)).text == "- Newer.\n- Older.\n- Less."
    assert await facts.topics(**USER) == [("work", 2), ("travel", 1)]
    assert await found(memory, "older less newer", filters=SearchFilters(topics=["travel"])) == [
        "Newer."
    ]


async def test_an_extractor_is_told_what_is_nearest_of_much(
    memory: PgVectorMemoryService, extractor: FactExtractor, script: Script
) -> None:
    facts = Facts(memory, extractor=extractor, max_known=3)
    await facts.enable("app")
    await remember(memory, 1, "A long story.")
    stated = [add(f"Ana read book {number}.", "t1") for number in range(20)]
    script.says(operations(*stated, add("Ana has a kitten.", "t1")))
    await facts.extract(**USER)
    await remember(memory, 2, "My feline is ill.")
    script.says(
        lambda prompt: operations(
            update(label(prompt, "known_facts", "kitten"), "Ana has an ill kitten.", "t1"),
            add("Ana read book 7.", "t1"),
        )
    )
    report = await facts.extract(**USER)
    assert len(lines(script.prompt, "known_facts")) <= 3
    assert (report.added, report.updated) == (0, 1), "what it was not told is known all the same"


async def test_switching_off_ends_what_waits_and_switching_on_reads_what_is_new(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    await remember(memory, 1, "I have a cat.")
    script.says(operations(CAT))
    await facts.extract(**USER)
    await remember(memory, 2, "It rains.")
    await facts.disable("app")
    assert await waiting(connection) == 0
    await remember(memory, 3, "It snows.")
    await memory.add_memory(**USER, memories=[entry("A note.")])
    assert await facts.extract(**USER) == ExtractionReport()
    assert await known(facts) == ["Ana has a kitten."]
    assert await facts.enable("app") == 2, "the turn that the fact was drawn from does not wait"
    assert await facts.enable("app") == 0
    assert (await facts.extract(**USER)).turns == 2
    await facts.disable("app")
    assert await facts.enable("app", past=False) == 0
    assert await waiting(connection) == 0


async def test_switching_off_and_on_brings_no_deleted_fact_back_and_pays_for_no_turn_twice(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, "I live at 5 Elm Street.")
    await remember(memory, 2, "It rains.")
    script.says(operations(add("Ana lives at 5 Elm Street.", "t1")))
    assert (await facts.extract(**USER)).turns == 2
    (fact,) = (await facts.profile(**USER)).facts
    await memory.delete_memory(**USER, memory_id=str(fact.memory.id))
    for _ in range(2):
        await facts.disable("app")
        assert await facts.enable("app") == 0
        assert await facts.extract(**USER) == ExtractionReport()
    assert await known(facts) == []
    assert len(script.requests) == 2


async def test_an_edited_turn_is_read_again_also_if_it_was_edited_while_extraction_was_off(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    await remember(memory, 1, "I have a cat.", "It rains.", "It snows.")
    script.says(operations(CAT))
    await facts.extract(**USER)
    await facts.disable("app")
    turn = await turn_id(memory, "It rains.")
    await memory.update_memory(**USER, memory_id=turn, text="It does not rain.")
    await remember(memory, 1, "I have a dog.", "It does not rain.", "It snows.")
    assert await facts.enable("app") == 2
    assert await facts.extract(**USER, session_id="day1") == ExtractionReport(
        turns=2, usage=ONE_CALL
    )


async def test_an_app_is_switched_on_and_off_in_batches(
    memory: PgVectorMemoryService,
    extractor: FactExtractor,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("adkpg.facts.service._QUEUED_TOGETHER", 3)
    facts = Facts(memory, extractor=extractor)
    for user_id in ("ana", "bob", "eve"):
        await remember(memory, 1, *(f"Turn {number}." for number in range(4)), user_id=user_id)
    assert await facts.enable("app") == 12
    assert await facts.enable("app") == 0, "they wait already"
    assert await waiting(connection) == 12
    await facts.disable("app")
    assert await waiting(connection) == 0
    assert await facts.enable("app", past=False) == 0
    assert await waiting(connection) == 0
    assert await facts.enable("app") == 12, "what was cut off is finished by calling it again"


async def test_a_fact_ends_with_the_first_of_its_provenance(
    memory: PgVectorMemoryService, facts: Facts, script: Script, connection: asyncpg.Connection
) -> None:
    later, sooner = "2100-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00"
    for name, end in (("e1", later), ("e2", sooner), ("e3", None)):
        await memory.add_events_to_memory(
            **USER,
            events=[said(f"The code of {name} is 9981.", name)],
            session_id="s",
            custom_metadata={"expires_at": end},
        )
    script.says(
        operations(add("Code one.", "t1"), add("Code two.", "t1", "t2"), add("Three.", "t3"))
    )
    await facts.extract(**USER)
    ends = {fact.text: fact.memory.expires_at for fact in (await facts.profile(**USER)).facts}
    assert ends == {"Code one.": later, "Code two.": sooner, "Three.": None}

    soonest = "2098-01-01T00:00:00+00:00"
    turn = await turn_id(memory, "The code of e1 is 9981.")
    await memory.update_memory(**USER, memory_id=turn, expires_at=soonest)
    ends = {fact.text: fact.memory.expires_at for fact in (await facts.profile(**USER)).facts}
    assert ends == {"Code one.": soonest, "Code two.": soonest, "Three.": None}
    await memory.update_memory(**USER, memory_id=turn, expires_at=later)
    ends = {fact.text: fact.memory.expires_at for fact in (await facts.profile(**USER)).facts}
    assert ends == {"Code one.": later, "Code two.": sooner, "Three.": None}
    await memory.update_memory(**USER, memory_id=turn, expires_at="2001-01-01T00:00:00+00:00")
    assert await known(facts) == ["Three."]
    assert await found(memory, "code", filters=SearchFilters(kinds=["fact"])) == []


async def test_a_fact_rests_on_turns_whose_words_it_repeats_unnamed(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    """The model names one turn; the other words came with the context, or with a known fact."""
    await remember(memory, 1, "My sister Zelda lives in Paris.", "She has a parrot.")
    script.says(operations(add("Zelda lives in Paris.", "t1")))
    await facts.extract(**USER)
    await remember(
        memory, 1, "My sister Zelda lives in Paris.", "She has a parrot.", "It is called Kiki."
    )
    script.says(
        operations(add("Zelda's parrot is called Kiki.", "t3"), add("Kiki is a name.", "t3"))
    )
    await facts.extract(**USER)
    await remember(memory, 2, "She moved to Rome.")
    script.says(operations(add("Zelda moved to Rome.", "t1"), add("Somebody moved.", "t1")))
    await facts.extract(**USER)
    await memory.delete_memory(**USER, memory_id=await turn_id(memory, "She has a parrot."))
    assert "Kiki is a name." in await known(facts)
    assert await found(memory, "parrot") == []
    await memory.delete_memory(
        **USER, memory_id=await turn_id(memory, "My sister Zelda lives in Paris.")
    )
    assert sorted(await known(facts)) == ["Kiki is a name.", "Somebody moved."]
    assert await found(memory, "Zelda") == []


async def test_without_an_extractor_facts_are_read_only(memory: PgVectorMemoryService) -> None:
    facts = Facts(memory)
    assert await known(facts) == []
    for call in (
        facts.extract(**USER),
        facts.extract_pending(),
        facts.summarize(**USER, session_id="day1"),
    ):
        with pytest.raises(ConfigurationError, match=r"give (one|a FactExtractor)"):
            await call


async def test_ids_that_cannot_be_stored_have_no_facts(facts: Facts) -> None:
    assert (await facts.extract(app_name="app", user_id="a\x00b")).turns == 0
    assert await known(facts, user_id="a\x00b") == []
    assert await facts.topics(app_name="app", user_id="a\x00b") == []
    assert await facts.history(**USER, memory_id="\x00") == []


@pytest.mark.parametrize("options", [{"max_known": 0}, {"batch_turns": 0}, {"context_turns": -1}])
def test_options_that_cannot_work_are_refused(
    memory: PgVectorMemoryService, options: dict[str, int]
) -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        Facts(memory, **options)  # type: ignore[arg-type] # of many types


def test_reports_sum_up() -> None:
    one = ExtractionReport(1, 2, 3, 4, 5, usage=Usage(6, 7, 8), errors=("a",))
    one.dropped["too long"] += 1
    total = one + one
    assert (total.turns, total.failed, total.added, total.updated) == (2, 4, 6, 8)
    assert (total.superseded, total.dropped) == (10, {"too long": 2})
    assert (total.usage, total.errors) == (Usage(12, 14, 16), ("a", "a"))


def _prompts(script: Script) -> list[str]:
    return [str(request.contents[0].parts[0].text) for request in script.requests]  # type: ignore[index] # each has one
