import pytest


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "ADKPG_EMBEDDING_DIMENSIONS",
        "ADKPG_EMBEDDING_MODEL",
        "ALL_PROXY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_GENAI_USE_ENTERPRISE",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "HTTP_PROXY",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "all_proxy",
        "http_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
