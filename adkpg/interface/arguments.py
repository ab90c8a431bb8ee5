"""Arguments: what a public call was given is of the types that its signature says. Pure."""

import sys
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import isclass, signature
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from adkpg.errors import InvalidInput

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_TEXTS = (str, bytes, bytearray)


@dataclass(frozen=True)
class _Wanted:
    """What an argument has to be.

    Attributes:
      said: In words, for people.
      met: Whether a value is one.
      items: The same of what it holds, for a collection; None where that is not looked at.
    """

    said: str
    met: Callable[[Any], bool]
    items: Callable[[Any], bool] | None = None


class Arguments:
    """The arguments of one function, by its annotations, which are read at its first call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._names = tuple(signature(function).parameters)
        self._wanted: dict[str, _Wanted] | None = None

    def require(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Refuses what is of another type, before anything is done with it.

        Raises:
          InvalidInput: One is; the message names the argument and both types, and no value.
        """
        if self._wanted is None:
            self._wanted = _read(self._function)
        wanted = self._wanted
        for position, value in enumerate(args):
            if (one := wanted.get(self._names[position])) is not None and not one.met(value):
                _refuse(self._names[position], value, one)
        for name, value in kwargs.items():
            if (one := wanted.get(name)) is not None and not one.met(value):
                _refuse(name, value, one)


def checked(function: FunctionT) -> FunctionT:
    """Refuses arguments of other types when a function is called, before anything is awaited.

    A call that `adkpg.telemetry.calls` traces is checked there.
    """
    arguments = Arguments(function)

    @wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        arguments.require(args, kwargs)
        return function(*args, **kwargs)

    return made  # type: ignore[return-value] # of the same signature


def _refuse(name: str, value: Any, wanted: _Wanted) -> None:
    if wanted.items is not None and isinstance(value, Collection) and not _is_text(value):
        for each in value:
            if not wanted.items(each):
                raise InvalidInput(f"{name} has to be {wanted.said}, and holds {_type(each)}.")
    raise InvalidInput(f"{name} has to be {wanted.said}, not {_type(value)}.")


def _type(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _read(function: Callable[..., Any]) -> dict[str, _Wanted]:
    found = signature(function).parameters
    named = (name for name, each in found.items() if each.kind is not each.VAR_KEYWORD)
    hints = get_type_hints(function)
    return {
        name: wanted
        for name in named
        if name in hints and (wanted := _wanted(hints[name])) is not None
    }


def _wanted(hint: Any) -> _Wanted | None:
    """Returns what a type asks of a value; None if nothing."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _wanted(inner[0])
    if origin in (Union, types.UnionType):
        return _any_of(inner)
    if origin is Literal:
        return _any_of(tuple({type(value): None for value in inner}))
    if hint is None or hint is type(None):
        return _Wanted("None", lambda value: value is None)
    if hint is int or hint is float:
        return _Wanted(hint.__name__, _is_whole if hint is int else _is_number)
    kind = origin or hint
    if kind is Callable:
        return _Wanted("a callable", callable)
    if not isclass(kind) or kind in (Any, object):
        return None
    if issubclass(kind, Mapping):
        return _Wanted("a mapping", lambda value: isinstance(value, Mapping))
    if issubclass(kind, Collection) and inner:
        return _collection(kind, inner[0])
    if getattr(kind, "_is_protocol", False) and kind.__module__ != "collections.abc":
        return _of_protocol(kind)
    return _Wanted(kind.__name__, lambda value: isinstance(value, kind))


def _any_of(hints: tuple[Any, ...]) -> _Wanted | None:
    several = [_wanted(hint) for hint in hints]
    known = [each for each in several if each is not None]
    if len(known) < len(several):
        return None
    tests = tuple(each.met for each in known)
    items = [each.items for each in known if each.items is not None]
    *others, last = dict.fromkeys(each.said for each in known)
    return _Wanted(
        f"{', '.join(others)} or {last}" if others else last,
        lambda value: any(test(value) for test in tests),
        items[0] if items else None,
    )


def _collection(kind: type, item: Any) -> _Wanted:
    # A tuple does where a list is meant, and the other way round.
    abstract: Any = Sequence if issubclass(kind, (list, tuple)) else kind
    said = f"a {abstract.__name__.lower()}"
    each = _wanted(item)
    if each is None:
        return _Wanted(said, lambda value: isinstance(value, abstract) and not _is_text(value))
    met = each.met
    return _Wanted(
        f"{said} of {each.said}",
        lambda value: isinstance(value, abstract) and not _is_text(value) and all(map(met, value)),
        met,
    )


def _of_protocol(protocol: type) -> _Wanted:
    names = [
        name
        for each in protocol.__mro__
        if getattr(each, "_is_protocol", False)
        for name in (*vars(each), *vars(each).get("__annotations__", {}))
        if not name.startswith("_")
    ]
    return _Wanted(protocol.__name__, lambda value: all(hasattr(value, name) for name in names))


def _is_whole(value: Any) -> bool:
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def _is_number(value: Any) -> bool:
    if type(value) is float:
        return True
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    return is_real and not (_is_whole(value) and abs(int(value)) > sys.float_info.max)


def _is_text(value: object) -> bool:
    return isinstance(value, _TEXTS)
