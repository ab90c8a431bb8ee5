"""Finds sentences that a reader has to read twice; ``make check`` runs it.

It reads README, the pages of docs/, and the docstrings and texts of adkpg. Arguments name files to
read instead.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_WORDS = 40
_PATTERNS = {
    "name the actor": r"(?i)\b(whoever|whomever|nobody|everybody|somebody)\b",
    "begin with the subject": r"(?:^|[.!?:]\s+)Of [a-z]",
    "say 'only'": r"(?i)\bnothing but\b",
}
# What a model is told was measured; the page of the benchmarks lists versions.
_LEFT_OUT = ("adkpg/facts/prompts.py", "docs/benchmarks.md")
_CODE = re.compile(r"``[^`]*``|`[^`\n]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"[.!?][\"')*_]*\s+(?=adk|[A-Z0-9`\"'(*_\[])")
_COMMENT = re.compile(r"(?s)<!--.*?-->")
# Begins an entry of a list, or of a docstring's arguments.
_ENTRY = re.compile(r"\s*(?:[*-]|\d+\.)\s+|  \*{0,2}\w+(?:, \w+)*(?: \([^)]*\))?: ")


def findings(text: str, *, sentences: bool = True) -> Iterator[str]:
    """Yields what a paragraph needs; `sentences` says whether long ones are found, too."""
    plain = _LINK.sub(r"\1", _CODE.sub("Code", " ".join(text.split())))
    for advice, pattern in _PATTERNS.items():
        for found in re.finditer(pattern, plain):
            yield f"{advice}: {plain[max(found.start() - 20, 0) : found.end() + 30]}"
    for sentence in _END.split(plain) if sentences else ():
        if (count := len(sentence.split())) > MOST_WORDS:
            yield f"{count} words, split the sentence: {sentence[:60]}"


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yields a page's paragraphs and entries with their lines, without code, tables and quotes."""
    began, lines, fence = 0, list[str](), ""
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate([*text.split("\n"), ""]):
        bare = line.strip()
        if mark := re.match(r"```+|~~~+", bare):
            fence = "" if bare == fence else fence or mark[0]
        skipped = fence or mark or bare.startswith(("|", ">", "#", "<", "\b"))
        entry = _ENTRY.match(line)
        if lines and (skipped or entry or not bare):
            if not lines[0].startswith("    "):  # else it is code
                yield began, "\n".join(lines)
            lines = []
        if bare and not skipped:
            began = began if lines else number
            lines.append(line[entry.end() :] if entry else line)


def page(text: str) -> Iterator[tuple[int, str]]:
    """Yields the findings in a page of Markdown, each with its line."""
    for number, paragraph in paragraphs(text):
        yield from ((number + 1, each) for each in findings(paragraph))


def module(text: str) -> Iterator[tuple[int, str]]:
    """Yields the findings in the docstrings and texts of a Python module, each with its line."""
    nodes = [*ast.walk(ast.parse(text))]
    docstrings = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    # A column's comment is in the database, where only a migration changes it.
    keywords = [each for each in nodes if isinstance(each, ast.keyword)]
    kept = {id(each.value) for each in keywords if each.arg == "comment"}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in kept:
            if id(node) in docstrings:
                found = page(inspect.cleandoc(node.value))
                yield from ((node.lineno + number - 1, finding) for number, finding in found)
            elif " " in node.value:  # else it is a name
                yield from ((node.lineno, each) for each in findings(node.value, sentences=False))


def main(names: list[str]) -> int:
    """Prints the findings of the files that are named, or of all; returns 1 if there are any."""
    every = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "adkpg").rglob("*.py")]
    left_out = {ROOT / name for name in _LEFT_OUT}
    failed = 0
    for file in [Path(name) for name in names] or sorted({*every} - left_out):
        read = module if file.suffix == ".py" else page
        for line, finding in sorted(read(file.read_text(encoding="utf-8"))):
            sys.stdout.write(f"{file}:{line}: {finding}\n")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
