"""With a key, Gemini speaks: through ADK's own client, against a server of the test's."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from adkpg.tooling.demo.line import Said
from tests.fakes.demo import Demo


@dataclass
class FakeGemini:
    """Answers every request alike and keeps what it was sent."""

    status: int = 200
    text: str = "Thank you."
    url: str = ""
    received: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def answer(self) -> dict[str, Any]:
        if self.status != 200:
            return {"error": {"code": self.status, "message": "API key not valid."}}
        content = {"role": "model", "parts": [{"text": self.text}]}
        return {"candidates": [{"content": content, "finishReason": "STOP"}]}


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    fake = FakeGemini()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            key = self.headers["x-goog-api-key"]
            fake.received.append((self.path, key, json.loads(body)))
            answer = json.dumps(fake.answer()).encode()
            self.send_response(fake.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """The test's output stays clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        fake.url = f"http://127.0.0.1:{server.server_port}"
        yield fake
        server.shutdown()
        thread.join()


def test_gemini_is_asked_with_the_key(demo: Demo, database_url: str, gemini: FakeGemini) -> None:
    variables = {
        "ADKPG_DATABASE_URL": database_url,
        "GEMINI_API_KEY": "a-key",
        "GOOGLE_GEMINI_BASE_URL": gemini.url,
    }
    outcome = demo(
        *("--act", "1", "--user", "ada", "--say", "I live in Graz.", "--ask", "Where?"), **variables
    )
    assert outcome.code == 0, outcome.err
    said = [line.text for line in outcome.lines if isinstance(line, Said)]
    assert said == ["I live in Graz.", "Thank you."]
    ((path, key, body),) = gemini.received
    assert path.endswith("/models/gemini-3.5-flash:generateContent")
    assert key == "a-key"
    assert body["contents"] == [{"role": "user", "parts": [{"text": "I live in Graz."}]}]
    assert "English" in body["systemInstruction"]["parts"][0]["text"], "the user's state"


def test_a_refused_key_is_one_sentence(demo: Demo, database_url: str, gemini: FakeGemini) -> None:
    gemini.status = 400
    outcome = demo(
        *("--act", "1", "--user", "ada"),
        ADKPG_DATABASE_URL=database_url,
        GOOGLE_API_KEY="wrong",
        GOOGLE_GEMINI_BASE_URL=gemini.url,
    )
    assert outcome.code == 1
    assert outcome.err.startswith("Error: The model gemini-3.5-flash did not answer")
    assert "API key not valid" in outcome.err
    assert "unset GOOGLE_API_KEY" in outcome.err
    assert "Traceback" not in outcome.err
