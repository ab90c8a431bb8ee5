"""The documentation builds into a site that is whole, offline, and says where everything is."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import adkpg
from adkpg.interface.internal import is_internal
from tests.fakes.checkout import CHECKOUT
from tests.fakes.front_door import PACKAGES
from tests.fakes.pages import blocks


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make site` builds it: strictly, so that every link leads somewhere."""
    place = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [
            "make",
            "-o",
            ".venv/.installed",
            f"BIN={Path(sys.executable).parent}",
            "site",
            f"SITE={place}",
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return place


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    for page in (CHECKOUT / "docs").rglob("*.md"):
        assert (site / page.relative_to(CHECKOUT / "docs").with_suffix(".html")).is_file(), page


def test_every_page_can_be_walked_to() -> None:
    docs = CHECKOUT / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    navigation = (CHECKOUT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[-1]
    assert pages <= set(re.findall(r"[\w./-]+\.md\b", navigation))
    start = (docs / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w./-]+\.md)", start)) | {"index.md", "catalogue/adkpg.md"}
    assert {page for page in pages if not page.startswith("reference/adkpg.")} <= linked


def test_no_page_asks_another_host(site: Path) -> None:
    asked = re.compile(
        r"<(?:script|img|link|iframe)[^>]*?(?:src|href)=[\"']?(?:https?:)?//([^\"'/> ]+)"
    )
    for page in site.rglob("*.html"):
        found = [
            (tag, host)
            for tag, host in ((m[0], m[1]) for m in asked.finditer(page.read_text()))
            if "canonical" not in tag
        ]
        assert found == [], page


def test_no_script_counts_the_repositorys_stars(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r"data-md-component=\"?source\b", page.read_text()), page


def test_every_public_class_and_function_is_in_the_reference(site: Path) -> None:
    for package in PACKAGES:
        page = (site / "reference" / f"{package}.html").read_text(encoding="utf-8")
        module = importlib.import_module(package)
        for name in module.__all__:
            if inspect.isclass(value := getattr(module, name)) or inspect.isfunction(value):
                ids = {f"{package}.{name}", f"{value.__module__}.{name}"}
                assert any(f'id="{known}"' in page for known in ids), ids


def test_what_adkpgs_own_modules_call_is_not_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "adkpg.html").read_text(encoding="utf-8")
    for cls in (adkpg.Database, adkpg.SearchFilters):
        internal = {name for name, member in vars(cls).items() if is_internal(member)}
        assert internal
        assert not [name for name in internal if f'id="adkpg.{cls.__name__}.{name}"' in page]
    assert 'id="adkpg.Database.upgrade"' in page


def test_llms_txt_has_every_page_of_the_navigation(site: Path) -> None:
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(https://adkpg\.github\.io/adkpg/([^)]+)\)", listed))
    config = (CHECKOUT / "mkdocs.yml").read_text(encoding="utf-8")
    assert linked == {
        page.replace(".md", ".html")
        for page in re.findall(r"[\w./-]+\.md\b", config.split("\nnav:")[-1])
    }
    assert all((site / page).is_file() for page in linked)


def test_llms_txt_says_of_each_page_what_it_is_about(site: Path) -> None:
    lines = [
        line
        for line in (site / "llms.txt").read_text(encoding="utf-8").splitlines()
        if line.startswith("- ")
    ]
    assert lines
    for line in lines:
        described = re.fullmatch(r"- \[[^\]]+\]\([^)]+\): (.+)", line)
        assert described, line
        assert re.fullmatch(r"(?!`{3}).{20,400}[.]", described[1]), line


def test_manifests_are_what_kubernetes_takes() -> None:
    page = CHECKOUT / "docs" / "deployment" / "kubernetes.md"
    manifests = [
        manifest for block in blocks(page, "yaml") for manifest in yaml.safe_load_all(block.text)
    ]
    assert {manifest["kind"] for manifest in manifests} == {"Job", "Deployment", "Service"}
    import kubernetes_validate  # noqa: PLC0415 # seven seconds, of each of the run's processes

    for manifest in manifests:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
