"""The documentation builds into a site that is whole, offline, and says where everything is."""

import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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


def test_no_page_asks_another_host(site: Path) -> None:
    asked = re.compile(
        r"<(?:script|img|link|iframe)[^>]*?(?:src|href)=[\"']?(?:https?:)?//([^\"'/> ]+)"
    )
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not [tag[0] for tag in asked.finditer(text) if "canonical" not in tag[0]], page
        assert not re.search(r"data-md-component=\"?source\b", text), page  # asks api.github.com


def test_every_public_class_and_function_is_in_the_reference(site: Path) -> None:
    for package in PACKAGES:
        page = (site / "reference" / f"{package}.html").read_text(encoding="utf-8")
        module = importlib.import_module(package)
        for name in module.__all__:
            if inspect.isclass(value := getattr(module, name)) or inspect.isfunction(value):
                ids = {f"{package}.{name}", f"{value.__module__}.{name}"}
                assert any(f'id="{known}"' in page for known in ids), ids
        assert 'id="adkpg.Database.fetch"' not in page, "adkpg's own modules alone call it"


def test_llms_txt_has_every_page_of_the_navigation(site: Path) -> None:
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    linked = re.findall(r"\(https://adkpg\.github\.io/adkpg/([^)]+)\)", listed)
    assert len(linked) > 50
    assert all((site / page).is_file() for page in linked)


def test_a_phone_shows_all_sections_first_and_labels_the_cells_of_text(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    assert 'id="__nav_1"' in start
    assert 'id="__nav_1" checked' not in start
    settings = (site / "settings.html").read_text(encoding="utf-8")
    assert 'id="__nav_4" checked' in settings
    assert '<td data-label="default">' in settings


def test_no_measurement_is_in_the_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    pages = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert "forgetting.html" in pages
    assert not pages & {f"{name}.html" for name in ("benchmarks", "performance", "scale")}


def test_manifests_are_what_kubernetes_takes() -> None:
    page = CHECKOUT / "docs" / "deployment" / "kubernetes.md"
    manifests = [
        manifest for block in blocks(page, "yaml") for manifest in yaml.safe_load_all(block.text)
    ]
    assert {manifest["kind"] for manifest in manifests} == {"Job", "Deployment", "Service"}
    import kubernetes_validate  # noqa: PLC0415 # seven seconds, of each of the run's processes

    for manifest in manifests:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
