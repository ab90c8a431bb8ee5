"""What mkdocs asks while it builds the site: pages of the top folder, links there, llms.txt."""

import itertools
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

_TOP = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}
_SOURCE = "https://github.com/adkpg/adkpg/blob/main/"
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_CODE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
_STARS = ' data-md-component="source"'  # the theme asks api.github.com for them
_SHIM = "https://unpkg.com/iframe-worker/shim"
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_OPENED = re.compile(r'(class="md-nav__toggle md-toggle ?" type="checkbox" id="__nav_\d+") checked')
_LOOKED_UP = 0.02
"""What a word of the changelog or of the reference counts in a search, beside one of a guide."""
_pages: dict[str, str] = {}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that lie at the top of the repository, so that each is written once."""
    root = Path(config.config_file_path).parent
    for name, page in _TOP.items():
        if page != "index.md":
            text = (root / name).read_text(encoding="utf-8")
            files.append(File.generated(config, page, content=_linked(text, root, root)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links out of docs/ to the site or the repository, and puts guides first in a search."""
    if page.file.abs_src_path is not None and page.file.generated_by is None:
        folder = Path(page.file.abs_src_path).parent
        markdown = _linked(markdown, folder, Path(config.config_file_path).parent)
    name = page.file.src_uri
    if name == "changelog.md" or name.startswith("reference/"):
        page.meta["search"] = {"boost": _LOOKED_UP}
    _pages[name] = markdown
    return markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Labels the cells of tables of text: docs/assets/site.css shows the labels on a phone."""
    return _TABLE.sub(_labelled, html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Lets a page ask no other host: not for the search's script, not for a repository's stars."""
    if page.file.src_uri == "index.md":
        output = _OPENED.sub(r"\1", output)  # a phone's drawer begins with all sections
    output = output.replace(_STARS, "")
    return output.replace(_SHIM, get_relative_url("assets/iframe-worker.js", page.url))


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Does so for the page of what is not there, too."""
    return output_content.replace(_STARS, "").replace(_SHIM, "assets/iframe-worker.js")


def on_post_build(config: MkDocsConfig) -> None:
    """Writes llms.txt, which lists the pages, and llms-full.txt: all but the reference in one."""
    out = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    whole = []
    for title, entries in _sections(config.nav):
        lines += [f"## {title}", ""]
        for page in entries:
            heading = re.search(r"^# (.+)$", _pages[page], re.MULTILINE)
            address = page.removesuffix(".md") + ".html"
            lines.append(f"- [{heading[1] if heading else page}]({config.site_url}{address})")
            if not page.startswith("reference/"):
                whole.append(_pages[page].strip())
        lines.append("")
    (out / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    (out / "llms-full.txt").write_text("\n\n".join(whole) + "\n", encoding="utf-8")


def _sections(nav: Any) -> list[tuple[str, list[str]]]:
    return [(title, _entries(entries)) for part in nav for title, entries in part.items()]


def _entries(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _entries(part)]


def _labelled(table: re.Match[str]) -> str:
    heads = [_TAG.sub("", each) for each in re.findall(r"<th[^>]*>(.*?)</th>", table[0])]
    if len(heads) < 3 or "text-align" in table[0]:
        return table[0]  # narrow, or of numbers, which are compared line by line
    label = itertools.cycle(head.replace('"', "&quot;") for head in heads)
    return re.sub("<td>", lambda _: f'<td data-label="{next(label)}">', table[0])


def _linked(text: str, folder: Path, root: Path) -> str:
    """Replaces links to files outside of docs/; those within are mkdocs' to check."""

    def replaced(found: re.Match[str]) -> str:
        target = (folder / found[1]).resolve()
        anchor = found[2] or ""
        if not target.is_relative_to(root):
            return found[0]
        if not target.exists():
            raise PluginError(f"{folder}: there is no {found[1]}")
        path = target.relative_to(root).as_posix()
        up = "../" * len(folder.relative_to(root / "docs").parts) if folder != root else ""
        if path in _TOP:
            return f"{up}{_TOP[path]}{anchor}"
        if path.startswith("docs/") and target.is_file():
            return found[0] if folder != root else path.removeprefix("docs/") + anchor
        return f"{_SOURCE}{path}{anchor}"

    parts = _CODE.split(text)
    return "".join(part if i % 2 else _LINK.sub(replaced, part) for i, part in enumerate(parts))
