"""The tables of docs/conventions.md: `python -m tests.support.conventions_page` writes them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from scouter.model.genai.conventions import CONVENTIONS
from scouter.model.genai.facts import Convention, Kind, Names

PAGE: Final = Path(__file__).parents[2] / "docs" / "conventions.md"
START: Final = "<!-- tables: python -m tests.support.conventions_page -->"
END: Final = "<!-- end of the tables -->"


def tables() -> str:
    """All tables as Markdown."""
    return "\n".join(line for each in CONVENTIONS for line in _table(each))


def with_tables(page: str) -> str:
    """The page with the tables of today in it."""
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n\n{tables()}\n{END}{tail}"


def _table(convention: Convention) -> Iterator[str]:
    yield f"### {convention.name[0].upper()}{convention.name[1:]}"
    yield ""
    yield f"Read from {convention.source}."
    if convention.only_with:
        yield f"Counts on spans with {_listed(convention.only_with)} only."
    if convention.leaves_out_cache:
        yield "Its count of input leaves out the cache, which is added."
    yield ""
    yield "| of | field | attributes, the preferred first |"
    yield "|---|---|---|"
    yield from _kinds(convention)
    for whose, names in (
        ("any span", convention.fields),
        ("tools", convention.tools),
        ("models, agents", {field: (f"{p}.N.…",) for p, field in convention.numbered.items()}),
        ("models, agents", convention.models),
        ("agents", convention.agents),
        ("tools", _parameters(convention)),
    ):
        for field, attributes in names.items():
            yield f"| {whose} | {field} | {_listed(attributes)} |"
    yield ""


def _parameters(convention: Convention) -> Mapping[str, tuple[str, ...]] | Names:
    listed = tuple(f"{prefix}NAME" for prefix in convention.parameters)
    return {"arguments, one each": listed} if listed else {}


def _kinds(convention: Convention) -> Iterator[str]:
    for attribute, values in convention.kinds.items():
        by_kind: dict[Kind | None, list[str]] = {}
        for value, kind in values.items():
            by_kind.setdefault(kind, []).append(value)
        told = "; ".join(
            f"{kind or 'tells nothing'}: {_listed(values)}" for kind, values in by_kind.items()
        )
        yield f"| any span | kind | `{attribute}` is {told} |"
    for name, kind in convention.span_names.items():
        yield f"| any span | kind | the span is named `{name}`: {kind} |"
    marks = "; ".join(f"`{name}`: {kind}" for name, kind in convention.marks.items())
    if marks:
        yield f"| any span | kind, where nothing else tells it | it has {marks} |"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
