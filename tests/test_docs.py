"""The documentation as a whole: every page is reachable, every link leads somewhere."""

import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    [*DOCS.rglob("*.md"), *(ROOT / "profiles").glob("*.md"), *ROOT.glob("*.md"),
     ROOT / "deploy/README.md"]
)  # fmt: skip
OUTSIDE = {"README.md": "overview.md"}
"""A page outside of docs/ that has another name in the site."""


def without_code(text: str) -> str:
    fenced = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.sub(r"^    .*$", "", fenced, flags=re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text("utf-8")), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = without_code(page.read_text(encoding="utf-8"))
    for target, fragment in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)#?([^)\s]*)\)", text):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if fragment:
            assert fragment in anchors(file), (target, fragment)


def nav_pages(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = cast("dict[str, object]", entry).values() if isinstance(entry, dict) else entry
    return [page for part in cast("list[object]", parts) for page in nav_pages(part)]


def test_the_site_has_every_page_once() -> None:
    """Those of docs/, the README, the ready-made profiles and deployment."""
    settings: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    names = (str(page.relative_to(ROOT)).removeprefix("docs/") for page in PAGES)
    assert sorted(nav_pages(settings["nav"])) == sorted(OUTSIDE.get(name, name) for name in names)
    assert settings["strict"] is True


def test_the_index_leads_to_every_page() -> None:
    """To all but the parts of a section that has a page of its own."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    linked = {(DOCS / target).resolve() for target in re.findall(r"\]\(([^)#]+)", index)}
    sections = (DOCS / "integrations", ROOT / "profiles", DOCS / "reference")
    wanted = {page for page in PAGES if page.parent not in sections} - {DOCS / "index.md"}
    assert wanted <= linked, wanted - linked
    assert {section / "README.md" for section in sections[:2]} <= linked
