"""A line that is odd in any way costs itself and nothing else."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.tooling.transfer import ImportReport, import_from
from adkpg.tooling.transfer.kinds import KINDS
from adkpg.tooling.transfer.sources import export_file
from adkpg.tooling.transfer.writing.rows import RowWriter
from tests.fakes.moves import stored

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
NOW = "2026-01-01T00:00:00+00:00"
HEAD = {"type": "export", "format": "adkpg", "version": 1, "app_name": "app"}
DEEP = '{"a":' * 3_000 + "1" + "}" * 3_000


def session(**fields: Any) -> dict[str, Any]:
    return {
        "type": "session",
        **ANA,
        "session_id": "s",
        "state": {},
        "revision": 3,
        "created_at": NOW,
        "updated_at": NOW,
    } | fields


def event(number: int, **fields: Any) -> dict[str, Any]:
    said = {
        "id": f"e{number}",
        "author": "user",
        "timestamp": float(number),
        "content": {"parts": [{"text": f"text {number}"}], "role": "user"},
    }
    line = {"type": "event", **ANA, "session_id": "s", "seq": number, "event": said}
    return line | fields


def memory(memory_id: str, position: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "memory",
        **ANA,
        "memory_id": memory_id,
        "kind": "note",
        "timestamp": NOW,
        "created_at": NOW,
        "content": {"parts": [{"text": memory_id}]},
        "body": memory_id,
        "importance": 0.5,
        "digest": memory_id,
        "position": position,
    } | fields


def question(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "saved_question",
        **ANA,
        "question_id": f"00000000-0000-0000-0000-{number:012}",
        "question": "Why?",
        "evidence": ["m"],
        "created_at": NOW,
    } | fields


def state(user_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "user_state",
        "app_name": "app",
        "user_id": user_id,
        "state": {"k": 1},
        "updated_at": NOW,
    } | fields


def tombstone(event_id: str, **fields: Any) -> dict[str, Any]:
    key = {**ANA, "session_id": "s", "event_id": event_id}
    return {"type": "tombstone", **key, "needed_at": NOW} | fields


def text(line: dict[str, Any], old: str, new: str) -> str:
    """A line, of which a part is spelled otherwise."""
    written = json.dumps(line)
    assert old in written
    return written.replace(old, new, 1)


GOOD = [
    state("ana"),
    tombstone("gone"),
    memory("m1", 1),
    memory("m2", 2, kind="turn", session_id="s", event_id="e2"),
    question(1),
    question(2),
    session(),
    event(1),
    event(2),
    event(3),
]
ODD: dict[str, tuple[int, dict[str, Any] | str | bytes]] = {
    # Where it comes, and what it is.
    "state: no object": (1, state("ben", state=[1])),
    "state: NUL in an id": (1, state("b\x00n")),
    "state: too deep": (1, text(state("ben"), '{"k": 1}', DEEP)),
    "mark: no time": (2, tombstone("e", needed_at="yesterday")),
    "mark: a number as time": (2, tombstone("e", needed_at=5)),
    "memory: NUL in its author": (3, memory("odd", 9, author="a\x00b")),
    "memory: no content": (3, memory("odd", 9, content={"parts": 5})),
    "memory: a place of no scope": (3, memory("odd", -5)),
    "memory: a kind that is none": (3, memory("odd", 9, kind="rumour")),
    "memory: too long an id": (3, memory("m" * 600, 9)),
    "memory: NaN": (3, text(memory("odd", 9), "0.5", "NaN")),
    "memory: topics that are no texts": (3, memory("odd", 9, topics=[{"a": 1}])),
    "memory: a lone surrogate": (3, memory("odd", 9, digest="\ud800")),
    "question: NUL": (4, question(3, question="Wh\x00y?")),
    "question: evidence that is no list": (4, question(3, evidence={"a": 1})),
    "question: no UUID": (4, question(3, question_id="x")),
    "event: no id": (8, event(9, event={"author": "user", "timestamp": 1.0})),
    "event: too large a number": (8, text(event(9), "9.0", "1e999")),
    "event: a number of 5,000 digits": (8, text(event(9), "9.0", "9" * 5_000)),
    "event: too deep": (8, text(event(9), '{"text": "text 9"}', DEEP)),
    "event: cut": (8, json.dumps(event(9))[:-9]),
    "event: an id with NUL": (8, event(9, event={"id": "\x00", "author": "u", "timestamp": 1})),
    "event: an id with half a character": (8, event(9, event={"id": "\ud800", "author": "u"})),
    "event: an id that came before": (8, event(9, event=event(1)["event"])),
    "event: of another session": (8, event(9, session_id="t")),
    "event: no number": (8, event(9, seq="x")),
    "chunk: of no file": (
        5,
        {
            "type": "artifact_chunk",
            **ANA,
            "artifact_id": "6d1a3f0e-7a5e-4a55-9d60-0d3d2c6f3f11",
            "chunk": 0,
            "data": base64.b64encode(b"x").decode(),
        },
    ),
    "no UTF-8": (4, b"\xff\xfe{}"),
    "two objects": (4, json.dumps(state("ben")) * 2),
    "an array": (4, "[1]"),
    "a text": (4, '"type"'),
    "no type": (4, "{}"),
    "a type that is no text": (4, '{"type":5}'),
    "nothing but a bracket": (4, "{"),
    "a comma at the end": (4, '{"type":"session",}'),
}


def file_of(folder: Path, *records: dict[str, Any] | str | bytes) -> Path:
    path = folder / "odd.jsonl"
    with path.open("wb") as file:
        for record in (HEAD, *records, {"type": "end", "records": {}}):
            line = json.dumps(record) if isinstance(record, dict) else record
            file.write((line.encode() if isinstance(line, str) else line) + b"\n")
    return path


async def imported(database: Database, *arguments: Any) -> ImportReport:
    return await import_from(database, source=file_of(*arguments))


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_an_odd_line_costs_itself(
    database: Database,
    database_url: str,
    target: Database,
    target_url: str,
    tmp_path: Path,
    odd: tuple[int, dict[str, Any] | str | bytes],
) -> None:
    clean = await imported(target, tmp_path, *GOOD)
    assert clean.complete
    place, line = odd
    report = await imported(database, tmp_path, *GOOD[:place], line, *GOOD[place:])
    assert (report.unread.count, report.differing.count) == (1, 0), report.unread.first
    assert await stored(database_url) == await stored(target_url)
    session = await DatabaseSessionService(database).get_session(**ANA, session_id="s")
    assert session is not None
    assert [event.id for event in session.events] == ["e1", "e2", "e3"]


async def test_all_odd_lines_at_once_cost_themselves(
    database: Database, database_url: str, target: Database, target_url: str, tmp_path: Path
) -> None:
    await imported(target, tmp_path, *GOOD)
    lines: list[Any] = []
    for number, good in enumerate(GOOD):
        lines += [odd for place, odd in ODD.values() if place == number]
        lines.append(good)
    report = await imported(database, tmp_path, *lines)
    assert report.unread.count == len(ODD)
    assert await stored(database_url) == await stored(target_url)


async def test_a_line_without_an_end_is_not_read_whole(
    database: Database,
    database_url: str,
    target: Database,
    target_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await imported(target, tmp_path, *GOOD)
    monkeypatch.setattr(export_file, "_ROOM", -63_999_000)  # so that lines of 1,000 bytes are long
    endless = json.dumps(event(9, event={"id": "x" * 5_000}))
    report = await imported(database, tmp_path, *GOOD[:8], endless, *GOOD[8:])
    (reason,) = report.unread.first
    assert "it has more than 1,000 bytes" in reason
    assert await stored(database_url) == await stored(target_url)


async def test_events_follow_their_session_and_nothing_comes_between(
    database: Database, tmp_path: Path
) -> None:
    lines = [session(), event(1), state("ben"), event(2)]
    report = await imported(database, tmp_path, *lines)
    assert report.unread.count == 1
    assert "session's line does not come before it" in report.unread.first[0]


async def test_a_payload_travels_byte_for_byte(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    spelled = (
        '{"author":"user", "id":"e1","timestamp":1.50,"content":{"role":"user","parts":'
        '[{"text":"a \\u0041 \\u0000 \u2028 \\/ \U0001f41d"}]},"custom_metadata":'
        '{"b":1.0e2,"a":10000000000000000000000001,"b":2}}'
    )
    line = json.dumps(event(1)).partition('"event": {')[0] + f'"event": {spelled}}}'
    report = await imported(database, tmp_path, session(revision=1), line)
    assert report.complete, report.unread.first
    (row,) = (await stored(database_url, ("events",)))["events"]
    assert row["payload"] == spelled


async def test_what_the_server_refuses_costs_itself(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    report, kind = ImportReport("here"), KINDS["saved_question"]
    writer = RowWriter(database, report, kind, writing=True)
    for number in range(20):
        record = kind.adapter.validate_python(question(number))
        if number in (3, 4, 19):  # as no line may say it
            record = replace(record, question="Wh\x00y?")
        await writer.add(record)
    await writer.flush()
    assert report.unread.count == 3
    assert all("Postgres cannot store" in reason for reason in report.unread.first)
    assert report.differing.count == 0
    rows = (await stored(database_url, ("saved_questions",)))["saved_questions"]
    assert len(rows) == 17
