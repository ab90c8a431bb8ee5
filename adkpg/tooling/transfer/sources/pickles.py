"""Pickles: the actions of old events, read from the opcodes, without an unpickler.

A pickle is a program, and a list of names that it may use is no sandbox, because what it does to an
allowed class stays in the process. So nothing here imports, calls or changes what a pickle names.
The opcodes that Python writes for plain data and for ADK's models make plain data here; a class is
its name.
"""

import io
import math
import pickletools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from enum import EnumType
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

from google.adk.events.event_actions import EventActions

from adkpg.errors import InvalidInput

MAX_BYTES = 16 * 2**20
"""Size of a pickle, and of the texts and digits it makes, each as often as it is referred to."""
MAX_STEPS = 500_000
"""Opcodes of a pickle, and values that it makes, each counted as often as it is referred to."""
MAX_DEPTH = 600
MAX_DIGITS = 4_300
"""Length of a number: what Python's own conversion takes by default."""

_MAX_BITS = int(MAX_DIGITS * math.log2(10))
_LONGEST_NAME = 500
_BUILTINS = ("builtins", "__builtin__")
_OBJECTS = tuple(f"{module}.object" for module in _BUILTINS)
_RECONSTRUCTORS = ("copyreg._reconstructor", "copy_reg._reconstructor")
_IN_DIGITS = (b"I", b"L", b"F", b"g", b"p")  # opcodes whose argument is a line of digits
_MODELS = ("google.adk.", "google.genai.", "fastapi.openapi.models")
_PLAIN = (str, bytes, bool, int, float, date, time, timedelta, tzinfo, UUID, type(None))


@dataclass(frozen=True, slots=True)
class _Name:
    """What a pickle calls a class or a function; only a member's value is looked up by it."""

    module: str
    name: str

    def __post_init__(self) -> None:
        if len(self.module) + len(self.name) > _LONGEST_NAME:  # each call reads it
            raise ValueError("it names something with too long a name")

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True)
class _Map:
    """A dict, as pairs: keys that all have one hash make a dict slow."""

    pairs: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _Object:
    """A model, or a UUID, with the state that BUILD gave it."""

    name: _Name
    state: _Map = field(default_factory=_Map)


def read_actions(data: bytes) -> EventActions:
    """Returns the actions that a pickle holds, of any protocol.

    The work grows linearly with the pickle, and stops at `MAX_BYTES`, `MAX_STEPS`, `MAX_DEPTH` and
    `MAX_DIGITS`.

    Raises:
      InvalidInput: It has other opcodes or types than actions need, is too large, or damaged.
    """
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        fields = _Plain().of(_result(data))
        if not isinstance(fields, dict):
            raise ValueError("it holds no actions")
        return EventActions.model_validate(fields)
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as exc:
        reason = str(exc).partition("\n")[0]
        raise InvalidInput(f"its pickled actions were refused ({reason[:200]})") from exc


class _Bytes(io.BytesIO):
    """A pickle, whose numbers in digits are measured before Python converts them."""

    def readline(self, size: int | None = -1, /) -> bytes:
        before = self.tell() - 1
        line = super().readline(size)
        if len(line) > MAX_DIGITS and self.getbuffer()[before : before + 1] in _IN_DIGITS:
            raise ValueError(f"it holds a number of more than {MAX_DIGITS} digits")
        return line


def _result(data: bytes) -> Any:
    """Carries a pickle's opcodes out on a stack of fresh lists, maps and names."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        place = marks.pop()
        items = stack[place:]
        del stack[place:]
        return items

    def top(kind: type) -> Any:
        found = stack[-1]
        if not isinstance(found, kind):
            raise ValueError("its opcodes do not fit together")
        return found

    steps = 0
    for opcode, given, _ in pickletools.genops(_Bytes(data)):
        argument: Any = given
        steps += 1
        if steps > MAX_STEPS:
            raise ValueError(f"it has more than {MAX_STEPS} opcodes")
        match opcode.name:
            case "PROTO" | "FRAME":
                pass
            case "STOP":
                (result,) = stack
                return result
            case "MARK":
                marks.append(len(stack))
            case "NONE":
                stack.append(None)
            case "NEWTRUE" | "NEWFALSE":
                stack.append(opcode.name == "NEWTRUE")
            case "INT" | "BININT" | "BININT1" | "BININT2" | "LONG" | "LONG1" | "LONG4":
                if argument.bit_length() > _MAX_BITS:
                    raise ValueError(f"it holds a number of more than {MAX_DIGITS} digits")
                stack.append(argument)
            case "FLOAT" | "BINFLOAT":
                stack.append(argument)
            case "UNICODE" | "SHORT_BINUNICODE" | "BINUNICODE" | "BINUNICODE8":
                stack.append(argument)
            case "SHORT_BINBYTES" | "BINBYTES" | "BINBYTES8" | "BYTEARRAY8":
                stack.append(bytes(argument))
            case "EMPTY_LIST" | "EMPTY_TUPLE" | "EMPTY_SET":
                stack.append([])
            case "LIST" | "TUPLE" | "FROZENSET":
                stack.append(since_mark())
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(opcode.name[-1])
                stack[-count:] = [_taken(stack, count)]
            case "APPEND":
                item = stack.pop()
                top(list).append(item)
            case "APPENDS" | "ADDITEMS":
                items = since_mark()
                top(list).extend(items)
            case "EMPTY_DICT":
                stack.append(_Map())
            case "DICT":
                items = since_mark()
                stack.append(_Map([*zip(items[::2], items[1::2], strict=True)]))
            case "SETITEM":
                key, value = _popped(stack, 2)
                top(_Map).pairs.append((key, value))
            case "SETITEMS":
                items = since_mark()
                top(_Map).pairs.extend(zip(items[::2], items[1::2], strict=True))
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "GLOBAL":
                stack.append(_Name(*argument.split(" ")))
            case "STACK_GLOBAL":
                module, name = _popped(stack, 2)
                if not (isinstance(module, str) and isinstance(name, str)):
                    raise ValueError("its opcodes do not fit together")
                stack.append(_Name(module, name))
            case "REDUCE" | "NEWOBJ":
                name, arguments = _popped(stack, 2)
                if not (isinstance(name, _Name) and isinstance(arguments, list)):
                    raise ValueError("its opcodes do not fit together")
                steps += _cost(arguments)  # they may be those of many calls
                stack.append(_made(name, arguments))
            case "BUILD":
                state = stack.pop()
                made = top(_Object)
                if not isinstance(state, _Map):
                    raise ValueError("its opcodes do not fit together")
                made.state = state
            case other:
                raise ValueError(f"it has an opcode {other}, which actions do not need")
    raise ValueError("it has no end")


def _taken(stack: list[Any], count: int) -> list[Any]:
    if len(stack) < count:
        raise ValueError("its opcodes do not fit together")
    return stack[-count:]


def _popped(stack: list[Any], count: int) -> list[Any]:
    items = _taken(stack, count)
    del stack[-count:]
    return items


def _cost(arguments: list[Any]) -> int:
    """How many steps a call takes that looks at all of its arguments."""
    listed = sum(len(each) for each in arguments if isinstance(each, list))
    written = sum(len(each) for each in arguments if isinstance(each, str | bytes))
    return len(arguments) + listed + written // 64


def _made(name: _Name, arguments: list[Any]) -> Any:
    """What a class or function of that name would make of arguments, as plain data."""
    if str(name) in _RECONSTRUCTORS:  # protocols 0 and 1 make objects by it
        made, base, initial = arguments
        named = isinstance(made, _Name) and isinstance(base, _Name)
        if not named or str(base) not in _OBJECTS or initial is not None:
            raise ValueError("its opcodes do not fit together")
        return _made(made, [])
    if name.module.startswith(_MODELS):
        if not arguments:
            return _Object(name)
        (value,) = arguments  # a member of an enumeration
        if isinstance(value, _PLAIN):
            return value
    elif str(name) == "uuid.UUID" and not arguments:
        return _Object(name)
    elif (make := _MAKERS.get(str(name).replace("__builtin__", "builtins"))) is not None:
        return make(*arguments)
    raise ValueError(f"it names {str(name)[:100]}, which actions do not hold")


def _member(kind: Any, name: Any) -> Any:
    """The value of a member, of which the first Pythons 3.11 pickle ``getattr(class, name)``."""
    if isinstance(kind, _Name) and isinstance(name, str) and kind.module.startswith(_MODELS):
        loaded = sys.modules.get(kind.module)
        found = None if loaded is None else vars(loaded).get(kind.name)
        member = found.__members__.get(name) if isinstance(found, EnumType) else None
        if member is not None and isinstance(member.value, _PLAIN):
            return member.value
    raise ValueError("it names builtins.getattr, which actions do not hold")


def _list(items: Any = None) -> list[Any]:
    if items is None:
        return []
    if not isinstance(items, list):
        raise ValueError("its opcodes do not fit together")
    return [*items]


def _map(factory: Any = None) -> _Map:
    if factory is None or (isinstance(factory, _Name) and factory.module in _BUILTINS):
        return _Map()
    raise ValueError("its opcodes do not fit together")


def _bytes(value: Any = b"", encoding: Any = "latin1") -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str) and encoding in ("latin1", "latin-1"):
        return value.encode("latin-1")
    raise ValueError("its opcodes do not fit together")


_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:E[+-]?[0-9]{1,4})?|-?Infinity|NaN")


def _decimal(text: Any) -> str:
    if isinstance(text, str) and len(text) <= MAX_DIGITS and _DECIMAL.fullmatch(text):
        return text  # as JSON has it
    raise ValueError("it holds a decimal number that actions do not hold")


def _date(packed: Any) -> date:
    high, low, month, day = _bytes(packed)
    return date(256 * high + low, month, day)


def _datetime(packed: Any, zone: Any = None) -> datetime:
    high, low, month, day, *clock = _bytes(packed)
    fold, month = divmod(month, 128)  # from Python 3.6 on the month's high bit is the fold
    hour, minute, second, *fraction = clock
    return datetime(
        *(256 * high + low, month, day, hour, minute, second, _microseconds(fraction)),
        tzinfo=_zone(zone),
        fold=fold,
    )


def _time(packed: Any, zone: Any = None) -> time:
    hour, minute, second, *fraction = _bytes(packed)
    fold, hour = divmod(hour, 128)
    return time(hour, minute, second, _microseconds(fraction), _zone(zone), fold=fold)


def _microseconds(packed: list[int]) -> int:
    high, middle, low = packed
    return 65_536 * high + 256 * middle + low


def _zone(zone: Any) -> tzinfo | None:
    if zone is None or isinstance(zone, timezone):
        return zone
    raise ValueError("it holds a time zone that actions do not hold")


def _timedelta(days: Any = 0, seconds: Any = 0, microseconds: Any = 0) -> timedelta:
    if not all(type(part) is int for part in (days, seconds, microseconds)):
        raise ValueError("its opcodes do not fit together")
    return timedelta(days, seconds, microseconds)


def _timezone(offset: Any = None, name: Any = None) -> timezone:
    if not isinstance(offset, timedelta) or not isinstance(name, str | None):
        raise ValueError("its opcodes do not fit together")
    return timezone(offset) if name is None else timezone(offset, name)


def _path(kind: type[PurePosixPath | PureWindowsPath]) -> Callable[..., str]:
    def joined(*parts: Any) -> str:
        if not all(isinstance(part, str) for part in parts):
            raise ValueError("its opcodes do not fit together")
        return str(kind(*parts))

    return joined


_MAKERS: dict[str, Callable[..., Any]] = {
    **{f"builtins.{name}": _list for name in ("frozenset", "list", "set", "tuple")},
    **dict.fromkeys(("builtins.dict", "collections.OrderedDict", "collections.defaultdict"), _map),
    **dict.fromkeys(("builtins.bytes", "builtins.bytearray", "_codecs.encode"), _bytes),
    "builtins.getattr": _member,
    "datetime.date": _date,
    "datetime.datetime": _datetime,
    "datetime.time": _time,
    "datetime.timedelta": _timedelta,
    "datetime.timezone": _timezone,
    "decimal.Decimal": _decimal,
    **{
        f"{module}.{prefix}{kind}Path": _path(made)
        for module in ("pathlib", "pathlib._local")
        for prefix in ("", "Pure")
        for kind, made in (("Posix", PurePosixPath), ("Windows", PureWindowsPath))
    },
}


class _Plain:
    """Makes the values of a pickle ones that JSON can be written of, within the limits."""

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._room = MAX_BYTES

    def of(self, value: Any, depth: int = 0) -> Any:
        self._steps -= 1
        if isinstance(value, str | bytes):
            self._room -= len(value)
        elif isinstance(value, int):
            self._room -= value.bit_length() // 3  # at least its digits
        if self._steps < 0 or self._room < 0:
            raise ValueError("it makes more than it is large")
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, list):
            items = []
            for item in value:
                items.append(self.of(item, depth + 1))
            return items
        if isinstance(value, _Object) and str(value.name) == "uuid.UUID":
            return self._uuid(value.state)
        fields: dict[str, Any] = {}
        for key, item in self._pairs(value):
            fields[key] = self.of(item, depth + 1)
        return fields

    def _pairs(self, value: Any) -> Iterator[tuple[str, Any]]:
        """The fields of a dict or a model; reading them costs steps, as they may be read often."""
        if isinstance(value, _Map):
            self._steps -= len(value.pairs)
            for key, item in value.pairs:
                name = _key(key)
                self._room -= len(name)
                yield name, item
        elif isinstance(value, _Object):
            state = dict(self._pairs(value.state))
            fields, named = state.get("__dict__"), state.get("__pydantic_fields_set__")
            if not (isinstance(fields, _Map) and isinstance(named, list)):
                raise ValueError(f"it holds a {value.name} without its fields")
            self._steps -= len(named)
            given = {name for name in named if isinstance(name, str)}
            yield from ((key, item) for key, item in self._pairs(fields) if key in given)
            if isinstance(extra := state.get("__pydantic_extra__"), _Map):
                yield from self._pairs(extra)
        else:
            raise ValueError(f"it holds {str(value)[:100]}, which actions do not hold")

    def _uuid(self, state: _Map) -> UUID:
        number = dict(self._pairs(state)).get("int")
        if type(number) is not int:
            raise ValueError("its opcodes do not fit together")
        return UUID(int=number)


def _key(key: Any) -> str:
    """A key as JSON writes it."""
    match key:
        case str():
            return key
        case None:
            return "null"
        case bool():
            return str(key).lower()
        case int() | float():
            return str(key)
        case _:
            raise ValueError("it holds a dict with other keys than texts and numbers")
