"""The API's use of the client's models, whose fields may have defaults for older collectors."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from scouter.client.models.answer import Answer
from scouter.client.models.evaluations import TaskResult
from tests.support.components import ROOT

MODELS = "scouter.client.models."


def shared(tree: ast.Module) -> dict[str, type[Answer]]:
    """Models of the client that a module imports, by the names that it calls them."""
    return {
        alias.asname or alias.name: getattr(import_module(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(MODELS)
        for alias in node.names
    }


def made(source: str) -> Iterator[tuple[type[Answer], set[str]]]:
    """Each model that is made in a source, with the fields that it is given."""
    tree = ast.parse(source)
    models = shared(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            given = [each.arg for each in node.keywords]
            if node.func.id in models and None not in given:  # a `**` is checked by its answers
                yield models[node.func.id], {name for name in given if name}


SOURCES = [
    path
    for path in sorted((ROOT / "collector").rglob("*.py"))
    if f"from {MODELS}" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_api_forgets_no_field(path: Path) -> None:
    """A default would hide it."""
    for model, given in made(path.read_text(encoding="utf-8")):
        assert given == set(model.model_fields), model.__name__


def test_a_forgotten_field_is_found() -> None:
    source = f"from {MODELS}answer import FacetValue as F\ndef f(): return F(value='a')"
    ((model, given),) = made(source)
    assert set(model.model_fields) - given == {"count"}


def test_the_document_says_that_every_field_is_there() -> None:
    schema: dict[str, Any] = TypeAdapter(TaskResult).json_schema(mode="serialization")
    for each in (schema, *schema["$defs"].values()):
        if each.get("title") in ("TaskResult", "TaskUsage"):
            assert set(each["required"]) == set(each["properties"])
