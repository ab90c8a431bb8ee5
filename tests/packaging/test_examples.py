"""Every example runs and prints what it promises."""

import asyncio
import os
import sys

import pytest

from tests.fakes.checkout import CHECKOUT

pytestmark = pytest.mark.program

EXAMPLES = CHECKOUT / "examples"
PROMISED = {
    "remember.py": 'You told me: "My bike is in the shed."',
    "several_writers.py": "20 events, state {'user:calendar': 9, 'user:microphone': 9}",
    "web.py": f"7 of 7 requests answered, 12 events: {' '.join(['user guide'] * 6)}\n"
    "12 turns are remembered; ready",
    "classics.py": "State after agent run: "
    "{'last_greeting': 'Hello there! How can I help you today?'}",
    "durable.py": """  pay: the process is killed
  ended with -9
Process 2
  pay: 49 euros
  model: asked after ['book', 'pay']
  guide: Your train is booked and paid.
  ended with 0
""",
    "facts.py": "Lives in Paris.",
    "knowledge.py": "It takes three working days.",
    "search.py": "guide: Shall I note how you get there?",
    "models.py": "topics-and-places: 4 vectors of 4, active",
    "forgetting.py": "pruned: ['The door code is 4711.', 'Ana likes oolong.']",
    "languages.py": "Haus: Die Häuser am Hafen sind verkauft.",
    "notebook.py": "I adopted a golden retriever called Biscuit.",
    "tools.py": "My bike is in the shed.",
    "langchain_embedder.py": "Ana likes green tea.",
    "capture.py": "Pay the hotel with [redacted].",
    "own_embedder.py": "Accommodation is booked in Marrakesh.",
}
SERVED = {"worker.py"}  # test_served_examples


def test_each_example_is_tested_and_described() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert programs == set(PROMISED) | SERVED
    described = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"({name})" in described for name in programs)


@pytest.mark.parametrize("name", sorted(PROMISED))
async def test_example_prints_what_it_promises(name: str, database_url: str) -> None:
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLES / name),
        cwd="/",
        env=environment | {"ADKPG_DATABASE_URL": database_url},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    assert PROMISED[name] in printed.decode()


async def test_the_agents_folder_runs_in_adk(database_url: str) -> None:
    """`adk run` loads the agent; services.py of the agents folder is adk web's, so it is named."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import services\n"
        "from google.adk.cli.service_registry import get_service_registry\n"
        "from google.adk.cli.utils.agent_loader import AgentLoader\n"
        "agent = AgentLoader(sys.argv[1]).load_agent('companion')\n"
        "registry = get_service_registry()\n"
        "service = registry.create_session_service('adkpg://', agents_dir=sys.argv[1])\n"
        "print(agent.name, type(service).__name__)\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        str(EXAMPLES / "agents"),
        env=os.environ | {"ADKPG_DATABASE_URL": database_url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    assert printed.decode().split() == ["companion", "SessionService"]
