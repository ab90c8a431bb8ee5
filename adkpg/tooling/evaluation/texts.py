"""Texts, compared as people would: case and spaces do not count."""


def contains(text: str, wanted: str) -> bool:
    """Whether a text has another in it."""
    return folded(wanted) in folded(text)


def folded(text: str) -> str:
    """Returns a text without case, with one space between words."""
    return " ".join(text.casefold().split())
