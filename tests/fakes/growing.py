"""Texts that grow, in every shape that some algorithm takes too long for, and who is given them."""

import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai.types import Content, FunctionCall, Part

from adkpg import SearchFilters, jsontext, timestamps
from adkpg.documents.chunking import chunks
from adkpg.embedding.embedder import well_formed
from adkpg.errors import AdkpgError
from adkpg.facts import merging, prompts
from adkpg.facts.extractor import KnownFact, Turn
from adkpg.keys import storable
from adkpg.memory import attributes, drafts, duplicates, records
from adkpg.memory.search import cues, hits, passage, updates
from adkpg.memory.tokenizer import script_config, searchable
from adkpg.memory.vectors.languages import foreign_language
from adkpg.memory.vectors.passages import passages
from adkpg.pages import place_of
from adkpg.remember.policy import RememberPolicy
from adkpg.remember.secrets import redact_secrets
from adkpg.sessions import state
from adkpg.text.normal_forms import nfc, nfkc
from adkpg.tooling import terminal
from adkpg.tooling.console import forms
from adkpg.tooling.console.transcript import marked_since, steps_of
from adkpg.tooling.demo import model as demo_model
from adkpg.tooling.evaluation.reading import parsed
from adkpg.tooling.evaluation.texts import contains
from adkpg.tooling.transfer import lines
from adkpg.tools.block import block_of

Shape = Callable[[int], str]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _repeated(unit: str) -> Shape:
    return lambda length: (unit * (length // len(unit) + 1))[:length]


def _marks(*kinds: str) -> Shape:
    """A letter with a run of marks for each kind, one after the other."""
    return lambda length: "a" + "".join(kind * (length // len(kinds)) for kind in kinds)


UNITS = (
    *(
        "\u0301\u0323",
        "\ufdfa",
        "\U0001d160",
        "\u05b0\u064b",
        "\uff76\uff9e",
        "\u17d2\u1780",
        "e\u0301",
    ),
    *(
        "\u1100\u1161\u11a8",
        "\u1161",
        "\u0e01\u0e31",
        "\u200d\U0001f469",
        "\ufe0f",
        "\u200f",
        "\u034f",
    ),
    *(
        "漢字",
        "か",
        "한국",
        "ภาษาไทย",
        "سلام ",
        "\uff21\uff22\uff11",
        "aA",
        "ß",
        "İ",
        "Σ'",
        "\ud83d",
        "a\ud83d",
    ),
    *("1234567890", "0", "4", "1e17 ", "1e+5", "-1.5e", "1,2,3,", "111,", "1.", "+1 ", "a1", "1 "),
    *(
        "1/",
        "1/1/2020 ",
        "2020-01-01 ",
        "12:",
        "may ",
        "3 May, ",
        "May 3-10 ",
        "last week ",
        "in 2020 ",
    ),
    *(
        "you ",
        "hast du ",
        "our very first ever ",
        "on the 3rd ",
        "the platform moved ",
        "platform ",
    ),
    *(
        "[",
        "]",
        "{",
        '{"a":',
        "(",
        "<",
        "> ",
        "[a](",
        "![",
        "<a ",
        "<!--",
        "&amp;",
        "<a'",
        "\\",
        '\\"',
    ),
    *(
        '"',
        "'",
        "`",
        "```\n",
        "``` ",
        "` `` ",
        '."',
        "*",
        "**a ",
        "#",
        "# a\n",
        "- a\n",
        "---\n",
        "|a|\n|-|\n",
    ),
    *(
        " ",
        "\n",
        "\t",
        "\n ",
        "\r\n",
        "\u00a0",
        "\x00",
        "\x1a001a",
        "\x1f",
        ".",
        "?",
        ";",
        ",",
        "$",
        "%",
    ),
    *(
        "-",
        "_",
        "=",
        "@",
        ":",
        "/",
        "a-",
        "a_",
        "a_b-c_",
        "a.",
        "a-b.",
        "/./.",
        "a@b.",
        "://",
        "://a:b",
    ),
    *(
        "password=",
        'password="',
        "bearer ",
        "eyJaaaaaa.",
        "sk-",
        "ghp_",
        "-----BEGIN PRIVATE KEY-----",
    ),
    *("<recalled_memory>\n", "Time: \n", "user: a\n", "A b. C d? ", "a", "abcdefghij"),
)
SHAPES: Mapping[str, Shape] = {
    **{repr(unit): _repeated(unit) for unit in UNITS},
    "marks of two classes": _marks("\u0301", "\u0323"),
    "marks that are two": _marks("\u0344", "\u0323"),
    "letters that become marks": _marks("\uff9e", "\u0301", "\u0323"),
    "nested brackets": lambda length: "[" * (length // 2) + "]" * (length // 2),
    "nested lists": lambda length: "\n".join(
        " " * (2 * n) + "- a" for n in range(int(length**0.5))
    ),
    "spaces between": lambda length: f"a{' ' * length}b",
    "line feeds between": lambda length: f"a{chr(10) * length}b",
    "a fence": lambda length: "```" + "\n" * length,
    "quotes after a dot": lambda length: "." + '"' * length,
    "an exponent": lambda length: "1e+" + "1" * length,
    "different words": lambda length: " ".join(f"w{n}" for n in range(length // 6)),
    "a table": lambda length: "|a|b|\n|-|-|\n" + "|1|2|\n" * (length // 6),
    "front matter": lambda length: "---\n" + "a: b\n" * (length // 5),
}


def said(text: str) -> Content:
    return Content(role="user", parts=[Part(text=text)])


def event(text: str) -> Event:
    return Event(author="user", invocation_id="i", content=said(text), timestamp=1.0)


def _hit(text: str) -> hits.Hit:
    memory = records.Memory(content=said(text), author="user")
    return hits.Hit(memory, 1.0, hits.Reason(1.0, (), None, 1.0, 1.0, 1.0, 1.0))


def _compared(text: str) -> updates.Compared:
    return updates.Compared((text[:9],), "turn", "user", None, NOW, None, 1.0, True, lambda: text)


def _merged(text: str) -> object:
    turn = Turn(memory_id="t", event_id=None, author="user", text=text, timestamp=NOW)
    known = [
        KnownFact(
            memory_id=f"f{n}",
            text=text[n:],
            importance=0.5,
            topics=(),
            provenance=("t",),
            timestamp=NOW,
        )
        for n in range(2)
    ]
    found = prompts.extraction(json.dumps([{"text": text, "sources": ["t1"]}]), {"t1": "t"}, {})
    return merging.merged(found, [turn], known, str, limits=merging.Limits(text=10**9))


def _parsed(text: str) -> object:
    dialog = [{"text": text}]
    msc = {"previous_dialogs": [], "dialog": dialog, "self_instruct": {"B": "q", "A": text}}
    return [_refused(parsed, each) for each in ([msc], _locomo(text))]


def _locomo(text: str) -> list[dict[str, object]]:
    turn = {"dia_id": text, "speaker": "a", "text": text}
    asked = {"question": text, "evidence": text, "answer": text}
    return [{"conversation": {"session_1": [turn], text: [turn]}, "qa": [asked]}]


def _refused(call: Callable[..., object], *given: object) -> object:
    try:
        return call(*given)
    except (AdkpgError, ValueError, RecursionError) as exc:
        return exc


def _parts(text: str) -> list[passage.Part]:
    return [passage.Part(start, start + 400, 0.5) for start in range(0, len(text), 350)]


TEXT_CALLS: Mapping[str, Callable[[str], object]] = {
    "nfc": nfc,
    "nfkc": nfkc,
    "searchable": searchable,
    "script_config": script_config,
    "drafts of events": lambda text: drafts.as_json(
        [(1, each) for each in drafts.drafts_of_events([event(text)], "s")]
    ),
    "drafts of memories": lambda text: drafts.drafts_of_memories(
        [
            MemoryEntry(
                content=said(text), author="user", custom_metadata={"x": text, "topics": [text]}
            )
        ],
        None,
        1.0,
    ),
    "redacted drafts": lambda text: drafts.drafts_of_events(
        [event(text)], "s", policy=RememberPolicy(redact=redact_secrets)
    ),
    "attributes": lambda text: attributes.read({"topics": list(text), "ttl": text}, 1.0),
    "passages": lambda text: passages("user", f"user: {text}", 400),
    "duplicates": lambda text: duplicates.groups([text, text[1:], text[:-1]], lambda place: 0),
    "best part of a text": lambda text: passage.best_part(
        text, [], "when did a platform move may 1"
    ),
    "best part for a question": lambda text: passage.best_part(
        "The platform has moved. " * 400, [], text
    ),
    "best of given parts": lambda text: passage.best_part(text, _parts(text), text),
    "newest first": lambda text: updates.newest_first(
        [_compared(text), _compared(f"{text}!")], text, {}
    ),
    "cues": lambda text: cues.cues_of(text, NOW),
    "language": lambda text: foreign_language(text, ["en"]),
    "hits within a budget": lambda text: hits.within_budget([_hit(text)], 10),
    "filters": lambda text: SearchFilters(metadata={"x": text}, topics=[text], authors=[text]),
    "merged facts": _merged,
    "shortened": lambda text: merging.shortened(text, len(text) - 1),
    "extraction": lambda text: prompts.extraction(text, {}, {}),
    "fenced extraction": lambda text: prompts.extraction(f"```json\n{text}", {}, {}),
    "summary": prompts.summary,
    "prompt": lambda text: prompts.turns_prompt(
        [Turn(memory_id="t", event_id=None, author=text, text=text, timestamp=NOW)], len(text)
    ),
    "redact_secrets": redact_secrets,
    "chunks of Markdown": lambda text: chunks(text, as_markdown=True),
    "chunks of text": lambda text: chunks(text, as_markdown=False),
    "block of a prompt": lambda text: block_of(
        [MemoryEntry(content=said(text), author=text, timestamp=text)],
        max_entries=3,
        max_tokens=10**9,
    ),
    "well_formed": lambda text: well_formed(text, len(text)),
    "written JSON": lambda text: jsontext.write({"f": 1e17, "text": text, "texts": list(text)}),
    "read JSON": lambda text: jsontext.read(text),
    "read again": lambda text: jsontext.read(jsontext.write({"f": 1e17, text: text})),
    "state": lambda text: state.split({text: text, "f": 1e17, "app:x": text}),
    "content": lambda text: jsontext.read_content(said(text).model_dump_json(exclude_none=True)),
    "event": lambda text: jsontext.read_events([jsontext.write_event(event(text))]),
    "stored event": jsontext.read_event,
    "stored events": lambda text: jsontext.read_events(
        [f'{{"content":{{"parts":[{{"text":"{text}"}}],"role":"user"}},{text}']
    ),
    "ids": lambda text: storable(user_id=text),
    "moment": lambda text: timestamps.moment("x", text),
    "cursor": lambda text: place_of(text, int),
    "form": lambda text: forms.pairs(text),
    "fields": lambda text: [
        _refused(read, {"x": text}, "x")
        for read in (forms.words, forms.decimal, forms.span, forms.time)
    ],
    "line of an export": lambda text: lines.read(text),
    "table": lambda text: terminal.show(["A", "B"], [(text, text)]),
    "data sets": _parsed,
    "contains": lambda text: contains(text, text),
    "demo": lambda text: demo_model.sentences_of(text),
}
"""The rooms that are given texts which users wrote, by what they make of them."""


def _compactions(count: int) -> Session:
    """Every third event stands for all before it, and every third takes one back."""
    events = [
        Event(
            author="user",
            invocation_id=f"i{n}",
            timestamp=float(n),
            actions=EventActions(
                compaction=EventCompaction(
                    start_timestamp=float(n % 7),
                    end_timestamp=float(n),
                    compacted_content=said("x"),
                )
                if n % 3 == 0
                else None,
                rewind_before_invocation_id=f"i{n // 2}" if n % 3 == 1 else None,
            ),
        )
        for n in range(count)
    ]
    return Session(id="s", app_name="a", user_id="u", events=events)


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def _called(value: Any) -> Event:
    call = FunctionCall(name="f", args={"x": value})
    return Event(
        author="a",
        invocation_id="i",
        content=Content(role="model", parts=[Part(function_call=call)]),
    )


VALUES: Mapping[str, Callable[[int], Any]] = {
    "long integers beside an exponent": lambda n: {"f": 1e17, "n": [10 ** (n // 4)] * 10},
    "long integers": lambda n: {"f": 1.5, "n": [10 ** (n // 4)] * 10},
    "large floats": lambda n: {"n": [1e300] * n},
    "small floats": lambda n: {"n": [1e-300, 1e17] * n},
    "exponents in texts": lambda n: {"f": 1e17, "n": ["1e+5"] * n},
    "nested lists": lambda n: {"n": _nested(n // 70)},
    "keys": lambda n: {f"k{number}": number for number in range(n)},
}
"""Values that grow in several ways; a number has 4,300 digits at most, and a list 600 levels."""

VALUE_CALLS: Mapping[str, Callable[[Any], object]] = {
    "write": jsontext.write,
    "write_state": jsontext.write_state,
    "write_event": lambda value: jsontext.write_event(_called(value)),
    "metadata": lambda value: attributes.read({"x": value}, 1.0),
    "filters": lambda value: SearchFilters(metadata={"x": value}),
    "drafts": lambda value: drafts.drafts_of_events([_called(value)], "s"),
    "read": lambda value: jsontext.read(jsontext.write(value)),
}


def cases() -> Iterator[tuple[str, Callable[[int], Any], Callable[[Any], object]]]:
    """What is called, with what: a name, what makes an argument of a size, and the call."""
    for name, call in TEXT_CALLS.items():
        for shape, make in SHAPES.items():
            yield f"{name}: {shape}", make, call
    for name, call in VALUE_CALLS.items():
        for shape, make_value in VALUES.items():
            yield f"{name}: {shape}", make_value, call
    yield "transcript", _compactions, lambda session: steps_of(session, {}, shown=range(0))
    yield (
        "live transcript",
        _compactions,
        lambda session: marked_since(session, known=len(session.events) - 1),
    )


def cpu_s(call: Callable[[Any], object], given: Any) -> float:
    """Returns the seconds that this thread worked, while no garbage is collected."""
    gc.disable()
    try:
        begun = time.thread_time()
        _refused(call, given)
        return time.thread_time() - begun
    finally:
        gc.enable()
