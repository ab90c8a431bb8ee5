"""The sentences that adkpg's code says its errors in, read from the code."""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_GAP = "…"
_LEAST_WORDS = 3
_MOST = 12  # of a message that is put together of many alternatives
_DEEPEST = 8
_SAME_TEXT = {"printable", "str", "strip", "rstrip", "lstrip", "capitalize"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """A module's messages.

    Args:
      path: Its file.
    """

    def __init__(self, path: Path) -> None:
        self._tree = ast.parse(path.read_text(encoding="utf-8"))
        self._functions = {
            each.name: each for each in ast.walk(self._tree) if isinstance(each, Function)
        }
        self._around: dict[ast.AST, Function] = {}
        for function in self._functions.values():
            for node in ast.walk(function):
                self._around[node] = function  # the innermost is walked last
        self._named = dict(self._assigned(self._tree.body))

    def said(self, kinds: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yields what is called and each sentence that it is called with.

        Args:
          kinds: Names of exceptions, and of functions, that take a message first.
        """
        wanted = set(kinds)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and node.args and called(node) in wanted:
                for text in self._texts(node.args[0], self._around.get(node), 0):
                    sentence = " ".join(text.split())
                    if len(sentence.replace(_GAP, "").split()) >= _LEAST_WORDS:
                        yield called(node), sentence

    def _texts(self, node: ast.expr | None, within: Function | None, depth: int) -> list[str]:
        """Returns what an expression may be, with … for what only a run tells."""
        if depth > _DEEPEST or node is None:
            return [_GAP]
        deeper = depth + 1
        match node:
            case ast.Constant(value=str(text)):
                return [re.sub(r"%(?:[.\d]*[sdrgf])", _GAP, text)]
            case ast.List(elts=[first, *_]):
                return self._texts(first, within, deeper)
            case ast.JoinedStr(values=values):
                parts = [
                    str(part.value) if isinstance(part, ast.Constant) else _GAP for part in values
                ]
                return ["".join(parts)]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                pairs = itertools.product(
                    self._texts(left, within, deeper), self._texts(right, within, deeper)
                )
                return ["".join(pair) for pair in itertools.islice(pairs, _MOST)]
            case ast.IfExp(body=body, orelse=orelse):
                return [
                    *self._texts(body, within, deeper),
                    *self._texts(orelse, within, deeper),
                ]
            case ast.BoolOp(values=values):
                return [text for value in values for text in self._texts(value, within, deeper)]
            case ast.Subscript(value=ast.Name(id=name)) if isinstance(
                self._named.get(name), ast.Dict
            ):
                table = self._named[name]
                assert isinstance(table, ast.Dict)
                return [text for value in table.values for text in self._texts(value, None, deeper)]
            case ast.Name(id=name):
                return self._of_a_name(name, within, deeper)
            case ast.Call() if called(node) in _SAME_TEXT:
                whole = node.args[0] if node.args else getattr(node.func, "value", None)
                return self._texts(whole, within, deeper)
            case ast.Call() if function := self._functions.get(called(node)):
                returned = [
                    each.value for each in ast.walk(function) if isinstance(each, ast.Return)
                ]
                return [
                    text
                    for value in returned
                    if value is not None
                    for text in self._texts(value, function, deeper)
                ]
        return [_GAP]

    def _of_a_name(self, name: str, within: Function | None, depth: int) -> list[str]:
        values = [value for key, value in self._assigned(within.body if within else ())]
        names = [key for key, _ in self._assigned(within.body if within else ())]
        found = [value for key, value in zip(names, values, strict=True) if key == name]
        if not found and name in self._named:
            found, within = [self._named[name]], None
        return [text for value in found for text in self._texts(value, within, depth)] or [_GAP]

    @staticmethod
    def _assigned(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
        for statement in body:
            for node in ast.walk(statement):
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value):
                        yield name, value
                    case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                        yield name, value


def called(node: ast.expr) -> str:
    """Returns the last name of what is called."""
    function = getattr(node, "func", None)
    return str(getattr(function, "attr", getattr(function, "id", "")))
