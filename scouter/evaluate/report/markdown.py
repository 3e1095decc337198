"""Reports in Markdown, read into sections and fields."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pydantic import JsonValue

from scouter.evaluate.report.rules import Compat

TITLE: Final = "title"
_TEXT_SECTION: Final = "Analysis Results"
"""The one section whose free text the originals keep."""


@dataclass(slots=True)
class _Section:
    level: int
    name: str
    fields: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    lines: list[str] = field(default_factory=list[str])


def read_report(text: str, compat: Compat = "sound") -> dict[str, JsonValue]:
    """Read a report.

    The heading `#` is the `title`, deeper headings are sections inside each other. A row of a
    table, with its header line or without one, is a field: its first cell is the name, the second
    the value; more cells make a list. A row that begins with `Field` names columns. A section
    without fields and sections is its text.

    Args:
        text: The Markdown.
        compat: `vss` keeps the text of the section `Analysis Results` alone.

    Cost: linear in the text.
    """
    report: dict[str, JsonValue] = {}
    open_sections: list[_Section] = []
    for kind, content in _blocks(text):
        if kind == "h1":
            report.setdefault(TITLE, content)
        elif kind.startswith("h"):
            level = int(kind[1:])
            while open_sections and open_sections[-1].level >= level:
                _close(open_sections, report, compat)
            open_sections.append(_Section(level, content))
        elif open_sections:
            _add(open_sections[-1], kind, content)
    while open_sections:
        _close(open_sections, report, compat)
    return report


def _close(open_sections: list[_Section], report: dict[str, JsonValue], compat: Compat) -> None:
    """Put the innermost section into the one around it."""
    section = open_sections.pop()
    around = open_sections[-1].fields if open_sections else report
    value: JsonValue = section.fields
    if not section.fields and section.lines:
        if compat != "vss":
            value = "\n".join(section.lines)
        elif section.name == _TEXT_SECTION:
            value = "".join(section.lines)
    if value or compat != "vss":
        around[section.name] = value


def _add(section: _Section, kind: str, content: str) -> None:
    """Take a row of a table, or a line of text."""
    if kind == "text" and not content.lstrip().startswith("|"):
        section.lines.append(content)
        return
    cells = content.split("\0") if kind == "row" else content.strip().strip("|").split("|")
    name, *values = (cell.strip().strip("*").strip() for cell in cells)
    if name.casefold() == "field" or not values or set(name) <= set("-: "):
        return
    section.fields[name] = values[0] if len(values) == 1 else list[JsonValue](values)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Headings (`h1` …), rows of tables (`row`) and lines (`text`), in their order."""
    row: list[str] = []
    within = ""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "heading_open":
            within = token.tag
        elif token.type == "tr_open":
            within, row = "row", []
        elif token.type == "tr_close":
            yield "row", "\0".join(row)
        elif token.type == "paragraph_open":
            within = "text"
        elif token.type in {"fence", "code_block"}:
            yield "text", token.content.rstrip("\n")
        elif token.type == "inline" and within == "row":
            row.append(_plain(token.children or ()))
        elif token.type == "inline" and within == "text":
            yield from (("text", line) for line in _plain(token.children or ()).split("\n") if line)
        elif token.type == "inline":
            yield within, _plain(token.children or ())


def _plain(tokens: Sequence[Token]) -> str:
    """The text of a line, without its marks and images."""
    parts: list[str] = []
    for token in tokens:
        if token.type in {"text", "code_inline"}:
            parts.append(token.content)
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append("\n")
    return "".join(parts).strip()
