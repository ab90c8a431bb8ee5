"""Pickled actions are read as data, whatever a pickle would do to the process that loads it."""

import json
import pickle
import pickletools
import struct
import sys
from collections import OrderedDict, defaultdict
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PosixPath, PurePosixPath
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from fastapi.openapi.models import HTTPBearer
from google.adk.auth.auth_credential import (
    AuthCredential,
    AuthCredentialTypes,
    HttpAuth,
    HttpCredentials,
)
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions import _restricted_pickle
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai.types import Content, FunctionCall, Language, Part
from hypothesis import given
from hypothesis import strategies as st

from adkpg import jsontext
from adkpg.errors import InvalidInput
from adkpg.tooling.transfer.sources import pickles
from adkpg.tooling.transfer.sources.pickles import read_actions

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def name(module: str, kind: str) -> bytes:
    return text(module) + text(kind) + b"\x93"


def state(value: bytes) -> bytes:
    """A pickle of a dict whose state delta has a value."""
    return b"\x80\x04}" + text("state_delta") + b"}" + text("k") + value + b"ss."


def classes() -> dict[str, dict[str, Any]]:
    """What ADK's own unpickler resolves, with the attributes of each."""
    found = {}
    for module, kind in _restricted_pickle._allowed_globals():
        owner: Any = sys.modules.get(module)
        for part in kind.split("."):
            owner = getattr(owner, part, None)
        if isinstance(owner, type):
            found[f"{module}.{kind}"] = dict(vars(owner))
    return found


MODEL = EventActions(
    state_delta={"app:x": [1, 2.5, None, True, "ü\ud83d\ude00", {"y": {"z": -(2**70)}}]},
    artifact_delta={"a.txt": 3},
    transfer_to_agent="peer",
    compaction=EventCompaction(
        start_timestamp=1.0,
        end_timestamp=2.0,
        compacted_content=Content(
            role="model", parts=[Part(function_call=FunctionCall(name="f", args={"a": 1}))]
        ),
    ),
    requested_tool_confirmations={"call": ToolConfirmation(hint="?", payload={"a": [1]})},
)
ODD = {
    "set": {1},
    "frozen": frozenset({"a"}),
    "tuple": (1, (2, "x")),
    "bytes": b"ab",
    "empty": b"",
    "array": bytearray(b"ab"),
    "ordered": OrderedDict(b=1, a=2),
    "default": defaultdict(list, {"x": [1]}),
    "date": date(2024, 2, 29),
    "datetime": datetime(2025, 3, 1, 23, 59, 58, 999_999),  # noqa: DTZ001 # as people store it
    "aware": datetime(2025, 3, 1, tzinfo=timezone(timedelta(hours=5, minutes=30), "IST")),
    "fold": datetime(2025, 10, 26, 2, 30, tzinfo=UTC, fold=1),
    "time": time(1, 2, 3, 4),
    "delta": timedelta(days=-1, seconds=5, microseconds=7),
    "decimal": Decimal("1.50"),
    "tiny": Decimal("1E-30"),
    "uuid": UUID(int=2**127 + 5),
    "path": PosixPath("/a/b"),
    "pure": PurePosixPath("c"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_actions_come_back_as_their_own_unpickler_has_them(protocol: int) -> None:
    assert read_actions(pickle.dumps(MODEL, protocol)) == MODEL
    assert read_actions(pickle.dumps(EventActions(), protocol)) == EventActions()
    odd = read_actions(pickle.dumps(EventActions(state_delta=ODD), protocol))
    expected = EventActions(state_delta=ODD)
    assert json.loads(odd.model_dump_json()) == json.loads(expected.model_dump_json())


def test_a_dict_as_the_oldest_databases_have_it_is_read() -> None:
    assert read_actions(pickle.dumps({"state_delta": {"a": 1}})).state_delta == {"a": 1}


_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
_flat = _scalars | st.lists(_scalars, max_size=4) | st.dictionaries(st.text(), _scalars, max_size=4)
_values: st.SearchStrategy[Any] = (
    _flat | st.lists(_flat, max_size=4) | st.dictionaries(st.text(), _flat, max_size=4)
)


@given(
    st.builds(
        EventActions,
        state_delta=st.dictionaries(st.text(), _values, max_size=4),
        artifact_delta=st.dictionaries(st.text(), st.integers(0, 9), max_size=2),
        escalate=st.none() | st.booleans(),
        agent_state=st.none() | st.dictionaries(st.text(), _values, max_size=2),
    ),
    st.sampled_from(PROTOCOLS),
)
def test_any_actions_come_back(actions: EventActions, protocol: int) -> None:
    assert read_actions(pickle.dumps(actions, protocol)) == actions


_rich = (
    _scalars
    | st.binary(max_size=8)
    | st.binary(max_size=8).map(bytearray)
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False, places=3)
    | st.uuids()
    | st.sampled_from(Language)
    | st.builds(PosixPath, st.from_regex("[a-z/]{1,9}", fullmatch=True))
    | st.builds(Part, text=st.text())
    | st.frozensets(st.integers(), max_size=1)  # of more the order is each process's own
    | st.sets(st.text(), max_size=1)
)
_nested: st.SearchStrategy[Any] = st.recursive(
    _rich,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.lists(inner, min_size=1, max_size=1).map(lambda items: [items, items])
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3).map(OrderedDict)
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=12,
)
_AUTH = AuthConfig(
    auth_scheme=HTTPBearer(),
    credential_key="k",
    raw_auth_credential=AuthCredential(
        auth_type=AuthCredentialTypes.HTTP,
        http=HttpAuth(scheme="bearer", credentials=HttpCredentials(token="t")),
    ),
)


def _written(actions: EventActions) -> Any:
    event = Event(id="e", author="a", timestamp=1.0, invocation_id="i", actions=actions)
    return json.loads(jsontext.write_event(event))


@given(
    st.builds(
        EventActions,
        state_delta=st.dictionaries(st.text(), _nested, max_size=4),
        artifact_delta=st.dictionaries(st.text(), st.integers(0, 9), max_size=2),
        transfer_to_agent=st.none() | st.text(),
        requested_auth_configs=st.sampled_from([{}, {"call": _AUTH}]),
        requested_tool_confirmations=st.dictionaries(
            st.text(), st.builds(ToolConfirmation, hint=st.text(), payload=_values), max_size=2
        ),
        compaction=st.sampled_from([None, MODEL.compaction]),
        agent_state=st.none() | st.dictionaries(st.text(), _nested, max_size=2),
    ),
    st.sampled_from(PROTOCOLS),
)
def test_actions_are_written_as_an_unpickler_would_have_them(
    actions: EventActions, protocol: int
) -> None:
    pickled = pickle.dumps(actions, protocol)
    trusted = pickle.loads(pickled).model_dump(exclude_unset=True)  # our own bytes
    expected = EventActions.model_validate(trusted)
    assert _written(read_actions(pickled)) == _written(expected)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_that_the_first_pythons_3_11_pickled_by_their_names_are_read(protocol: int) -> None:
    class Member:
        def __reduce__(self) -> tuple[Any, ...]:
            return getattr, (Language, "PYTHON")

    fields = {"state_delta": {"language": Member()}}
    made = EventActions.model_construct({"state_delta"}, **fields)
    assert read_actions(pickle.dumps(made, protocol)).state_delta == {"language": "PYTHON"}


GETATTR = name("builtins", "getattr")
EVIL = {
    "what is no member": state(
        name("builtins", "getattr")
        + name("google.genai.types", "Language")
        + text("mro")
        + b"\x86R"
    ),
    "a member of what is no enumeration": state(
        name("builtins", "getattr")
        + name("google.genai.types", "Part")
        + text("from_uri")
        + b"\x86R"
    ),
    "a member of elsewhere": state(
        name("builtins", "getattr") + name("os", "system") + text("__call__") + b"\x86R"
    ),
    "a class changed by BUILD": b"\x80\x04cpathlib\nPosixPath\nN}"
    + text("_str")
    + text("/attacker/choice")
    + b"s\x86b0}.",
    "an enumeration changed by BUILD": b"\x80\x04cgoogle.genai.types\nLanguage\n}"
    + text("PYTHON")
    + text("x")
    + b"sb0}.",
    "a call": b"\x80\x04cos\nsystem\n" + text("true") + b"\x85R.",
    "a call within": state(name("posix", "system") + text("true") + b"\x85R"),
    "a model of elsewhere": state(name("subprocess", "Popen") + b")\x81}b"),
    "an extension": b"\x80\x04\x82\x01.",
    "a persistent id": b"\x80\x04" + text("x") + b"Q.",
    "a class as a value": state(name("google.adk.events.event_actions", "EventActions")),
    "a class as a factory": state(
        name("collections", "defaultdict") + name("os", "system") + b"\x85R"
    ),
}


@pytest.mark.parametrize("pickled", EVIL.values(), ids=EVIL)
def test_what_is_no_data_is_refused_and_changes_nothing(pickled: bytes) -> None:
    before, loaded = classes(), {*sys.modules}
    with pytest.raises(InvalidInput, match="its pickled actions were refused"):
        read_actions(pickled)
    assert classes() == before
    assert {*sys.modules} == loaded


LARGE = {
    "a long name often": state(
        text("x" * 1_000_000) + b"q\x00h\x00\x93q\x01](" + b"h\x01)R" * 5_000 + b"e"
    ),
    "a base of lists in lists": b"\x80\x04]q\x00"
    + b"".join(b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(40))
    + name("copyreg", "_reconstructor")
    + name("google.adk.events.event_actions", "EventActions")
    + b"h\x28N\x87R.",
    "a number by its exponent": state(name("decimal", "Decimal") + text("1e300000") + b"\x85R"),
    "a number made of a number": state(
        name("builtins", "int") + name("decimal", "Decimal") + text("1e300") + b"\x85R\x85R"
    ),
    "a number of many digits": state(b"\x8b" + struct.pack("<i", 9_000) + b"\x01" * 9_000),
    "a number in digits": state(b"L" + b"9" * 5_000 + b"L\n"),
    "a number in many places": state(
        b"](\x8b" + struct.pack("<i", 1_785) + b"\x01" * 1_785 + b"q\x00" + b"h\x00" * 9_000 + b"e"
    ),
    "lists in lists": b"\x80\x04}"
    + text("state_delta")
    + b"}"
    + text("k")
    + b"]q\x00"
    + b"".join(
        b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(40)
    ),
    "a list in itself": state(b"]q\x00h\x00a"),
    "deep": state(b"]" * 2_000 + b"a" * 1_999),
    "texts": state(text("x" * 1_000_000) + b"q\x000](" + b"h\x00" * 100 + b"e"),
    "bytes": b"\x80\x04" + b"N" * (pickles.MAX_BYTES + 1),
    "opcodes": state(b"](" + b"N" * (pickles.MAX_STEPS + 1) + b"e"),
    "one model often": state(
        name("google.adk.events.event_actions", "EventActions")
        + b")\x81}"
        + text("__dict__")
        + b"}("
        + b"".join(text(f"f{i}") + b"N" for i in range(20_000))
        + b"us"
        + text("__pydantic_fields_set__")
        + b"\x8fsbq\x00](a".replace(b"(a", b"(")
        + b"h\x00" * 20_000
        + b"e"
    ),
    "one call often": state(
        b"]("
        + b"N" * 20_000
        + b"e\x85q\x00]("
        + (name("builtins", "set") + b"h\x00R") * 5_000
        + b"e"
    ),
}


@pytest.mark.parametrize("pickled", LARGE.values(), ids=LARGE)
def test_what_would_take_long_is_refused_after_a_bounded_number_of_steps(pickled: bytes) -> None:
    """Counted in lines of Python; each of them works on one opcode, value or field."""
    lines = 0

    def counted(frame: Any, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return counted

    before = sys.gettrace()
    sys.settrace(counted)
    try:
        with pytest.raises(InvalidInput, match="its pickled actions were refused"):
            read_actions(pickled)
    finally:
        sys.settrace(before)
    assert lines < 60 * pickles.MAX_STEPS


@pytest.mark.parametrize("opcode", [b"I", b"L", b"F", b"g", b"p"])
def test_digits_are_measured_before_they_are_converted(opcode: bytes) -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)  # as a deployment may have it
    try:
        with pytest.raises(InvalidInput, match="more than 4300 digits"):
            read_actions(state(opcode + b"9" * 5_000 + b"\n"))
    finally:
        sys.set_int_max_str_digits(limit)


_opcodes = st.sampled_from(pickletools.opcodes)


@st.composite
def _programs(draw: st.DrawFn) -> bytes:
    """Opcodes in any order, with arguments of the right form, and with ADK's names."""
    parts = [b"\x80\x04"]
    for _ in range(draw(st.integers(1, 30))):
        opcode = draw(_opcodes)
        code = opcode.code.encode("latin-1")
        if opcode.name == "GLOBAL":
            module, kind = draw(st.sampled_from(sorted(_restricted_pickle._allowed_globals())))
            parts.append(b"c" + module.encode() + b"\n" + kind.encode() + b"\n")
        elif opcode.arg is None:
            parts.append(code)
        elif opcode.arg.n == pickletools.UP_TO_NEWLINE:
            parts.append(code + draw(st.sampled_from([b"0", b"x", b"'x'", b"9L", b"1.5"])) + b"\n")
        elif opcode.arg.n > 0:
            parts.append(code + draw(st.binary(min_size=opcode.arg.n, max_size=opcode.arg.n)))
        else:
            size = {pickletools.TAKEN_FROM_ARGUMENT1: 1}.get(opcode.arg.n, 4)
            size = 8 if opcode.arg.n == pickletools.TAKEN_FROM_ARGUMENT8U else size
            filling = draw(st.binary(max_size=8))
            parts.append(code + len(filling).to_bytes(size, "little") + filling)
    return b"".join(parts) + b"."


@given(
    _programs()
    | st.tuples(st.integers(0, 10**4), st.binary(max_size=4)).map(
        lambda change: _changed(pickle.dumps(MODEL), *change)
    )
)
def test_any_program_is_data_or_refused_and_changes_nothing(pickled: bytes) -> None:
    before, loaded = classes(), {*sys.modules}
    with suppress(InvalidInput):
        assert isinstance(read_actions(pickled), EventActions)
    new = {*sys.modules} - loaded
    assert [module for module in new if not module.startswith("encodings.")] == []
    assert classes() == before


def _changed(pickled: bytes, place: int, by: bytes) -> bytes:
    place %= len(pickled)
    return pickled[:place] + by + pickled[place + len(by) :]


def test_no_unpickler_is_asked() -> None:
    with (
        patch.object(pickle, "Unpickler", side_effect=AssertionError),
        patch.object(pickle, "loads", side_effect=AssertionError),
    ):
        assert read_actions(pickle.dumps(MODEL)) == MODEL
