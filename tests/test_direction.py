"""Import direction, checked instead of promised. Relative imports are banned by ruff (TID252)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = {
    "scouter": (
        "errors lazy settings; model; evaluate; alert; drift; transport; queue; tracing; agent;"
        " replay; formats; client; mock trace types testing cli pytest_plugin"
    ),
    "collector": (
        "histogram key_filter problem split; settings metrics log_lines process prices;"
        " storage access; pipeline alerts results exemplars; judging receivers operation; api; web;"
        " app; service care_commands; commands demo"
    ),
}
RANK = {
    f"{package}.{name}": rank
    for package, rows in ROWS.items()
    for rank, row in enumerate(rows.split(";"))
    for name in row.split()
}
FILES = sorted(path for package in ROWS for path in (ROOT / package).rglob("*.py"))


def imported(source: str) -> Iterator[str]:
    """Every project module that a source imports, inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def violations(own: str, source: str) -> list[str]:
    """Imports that a module in room `own` (such as `scouter.queue`) must not have."""
    package = own.split(".")[0]
    found: list[str] = []
    for name in imported(source):
        head, *rest = name.split(".")
        if head not in ROWS or not rest:
            if head in ROWS:
                found.append(f"{own} imports the whole of {head}")
            continue
        target = f"{head}.{rest[0]}"
        if head == "scouter" and package == "collector":
            continue
        rank = RANK.get(target, len(FILES))
        if head != package or (target != own and rank >= RANK[own]):
            found.append(f"{own} imports {target}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_only_lower_rows(path: Path) -> None:
    """A module may import its own room, lower rows and, from the collector, the SDK."""
    package, part = path.relative_to(ROOT).with_suffix("").parts[:2]
    if path.name == "__init__.py":
        return  # the public surface: it may re-export from any room, and holds nothing else
    assert violations(f"{package}.{part}", path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.name == "__init__.py"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_package_surface_holds_nothing_else(path: Path) -> None:
    """An `__init__` is docstring, imports, names; the one function allowed is `__getattr__`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    assert set(defined) <= {"__getattr__", "__dir__"}
    assert "scouter" not in path.parts or not any(
        name.startswith("collector") for name in imported(path.read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize(
    "source",
    [
        "from scouter.tracing import tracer",
        "import scouter.replay.runner",
        "def f():\n    from scouter.drift.profile import AgentEvalProfile",
        "from collector.app import run",
        "import collector.storage.port.store as port",
        "from scouter import drift",
        "import scouter",
        "if True:\n    import scouter.tracing.capture",
    ],
)
def test_the_rule_catches_planted_violations(source: str) -> None:
    """Each of these, planted in `scouter.evaluate`, is upward, to the root or to the service."""
    assert len(violations("scouter.evaluate", source)) == 1
