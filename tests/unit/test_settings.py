"""Settings come from ADKPG_ variables, are checked, documented and frozen."""

import pytest
from pydantic import ValidationError

from adkpg import Database, Settings
from adkpg.errors import ConfigurationError


def test_fields_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_POOL_SIZE", "3")
    monkeypatch.setenv("ADKPG_AUTO_UPGRADE", "true")
    monkeypatch.setenv("ADKPG_UNKNOWN", "ignored")
    settings = Settings()
    assert (settings.pool_size, settings.auto_upgrade) == (3, True)


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.setenv(f"ADKPG_{name.upper()}", "")
    assert Settings() == Settings.model_validate({})
    assert Settings().database_url is None


def test_the_defaults_are_those_of_an_empty_environment() -> None:
    assert Settings().model_dump() == {
        name: field.get_default() for name, field in Settings.model_fields.items()
    }


def test_times_are_in_seconds_and_not_negative() -> None:
    for name in Settings.model_fields:
        if name.endswith("_s"):
            assert "in seconds" in (Settings.model_fields[name].description or "")
            with pytest.raises(ValidationError, match=name):
                Settings.model_validate({name: -1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("database_schema", 'x"; drop table sessions'),
        ("database_schema", "Capital"),
        ("text_search_config", "english'"),
        ("pool_size", 0),
        ("embedder", "other"),
        ("embedder", "module:"),
        ("embedder", ":attribute"),
        ("exact_limit", 0),
    ],
)
def test_wrong_values_name_their_field(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        Settings.model_validate({name: value})


def test_an_embedder_is_one_of_ours_a_folder_or_ones_own() -> None:
    for name in ("auto", "none", "local", "onnx:/models/bge", "my_agent.embedding:embedder"):
        assert Settings(embedder=name).embedder == name


def test_the_url_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", "postgresql://u:hidden@h/d")
    assert "hidden" not in repr(Settings())


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().pool_size = 4


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("POOL_SIZE", "s3cret", "is not a whole number"),
        ("POOL_SIZE", "0", "should be greater than or equal to 1"),
        ("POOL_TIMEOUT_S", "soon", "is not a number"),
        ("AUTO_UPGRADE", "perhaps", "is neither true nor false"),
        ("REMEMBER", "perhaps", "is neither true nor false nor 'redacted'"),
        ("EMBEDDER", "locl", "should be 'auto', 'none', 'local'"),
        ("DATABASE_SCHEMA", "Capital", "should match pattern"),
    ],
)
def test_a_wrong_variable_is_one_sentence_of_ours_without_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"ADKPG_{name}", value)
    with pytest.raises(ConfigurationError) as caught:
        Database("embedded")
    assert f"ADKPG_{name} {said}" in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert value not in str(caught.value) or value == "0"
