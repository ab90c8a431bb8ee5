"""Settings come from ADKPG_ variables, are checked, documented and frozen."""

import pytest
from pydantic import ValidationError

from adkpg import Settings


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


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_field_is_described_in_a_sentence(name: str) -> None:
    assert (Settings.model_fields[name].description or "").endswith(".")


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if name.endswith("_s")])
def test_times_are_in_seconds_and_not_negative(name: str) -> None:
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
        ("pool_overflow", -1),
        ("embedder", "other"),
        ("exact_limit", 0),
    ],
)
def test_wrong_values_name_their_field(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        Settings.model_validate({name: value})


def test_the_url_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", "postgresql://u:hidden@h/d")
    assert "hidden" not in repr(Settings())


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().pool_size = 4
