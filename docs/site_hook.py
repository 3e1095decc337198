"""Build hook of the documentation site.

Some pages live outside of docs/: the README, the changelog, the pages of ready-made profiles and of
deployment. The hook adds them to the site, rewrites their links, and writes the HTTP API's
OpenAPI document, requested from a collector that it starts.
"""

import posixpath
import re
import tempfile
from pathlib import Path
from typing import Final

import httpx
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from collector.demo.processes import running_collector

ROOT: Final = Path(__file__).parents[1]
_PAGES: Final = {
    "README.md": "overview.md",  # beside index.md the name README.md means the same page
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "deploy/README.md": "deploy/README.md",
    **{
        f"profiles/{path.name}": f"profiles/{path.name}"
        for path in (ROOT / "profiles").glob("*.md")
    },
}
"""Pages outside of docs/, by their path in the repository: their path in the site."""

_LINK: Final = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)")
_OPENAPI: Final = "reference/openapi.json"


def on_pre_build(config: MkDocsConfig) -> None:
    """Write the OpenAPI document beside its page, where the plugin reads it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_collector(Path(folder), profiles=()) as url,
    ):
        document = httpx.get(f"{url}/openapi.json").raise_for_status().text
    (Path(config.docs_dir) / _OPENAPI).write_text(document, encoding="utf-8")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside of docs/, and every other file that a page links to."""
    linked: set[str] = set()
    for source, target in _PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        linked |= _linked_files(text, source)
        files.append(File.generated(config, target, content=_with_site_links(text, source)))
    for file in files.documentation_pages():
        if file.src_uri not in _PAGES.values():
            linked |= _linked_files(file.content_string, f"docs/{file.src_uri}")
    for path in sorted(linked):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page in docs/ that lead out of it."""
    if page.file.src_uri in _PAGES.values():
        return markdown
    return _with_site_links(markdown, f"docs/{page.file.src_uri}")


def _linked_files(text: str, source: str) -> set[str]:
    """Files of the repository that are no pages of the site, as a page links to them."""
    found = {_in_repository(match[2], source) for match in _LINK.finditer(text)}
    return {
        path
        for path in found - set(_PAGES)
        if not path.startswith("docs/") and (ROOT / path).is_file()
    }


def _with_site_links(text: str, source: str) -> str:
    page = _in_site(source)

    def site_link(match: re.Match[str]) -> str:
        target = _in_site(_in_repository(match[2], source))
        return match[1] + posixpath.relpath(target, posixpath.dirname(page) or ".")

    return _LINK.sub(site_link, text)


def _in_repository(link: str, source: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _in_site(path: str) -> str:
    return _PAGES.get(path, path.removeprefix("docs/"))
