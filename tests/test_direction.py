"""Import direction, checked instead of promised. Relative imports are banned by ruff (TID252)."""

import ast
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]
ROWS = {
    "scouter": (
        "errors lazy settings; model; evaluate; alert; drift; transport; queue; tracing; agent;"
        " replay; formats; client; mock trace types testing cli pytest_plugin"
    ),
    "scouter.evaluate": (
        "outcome; intervals; files patterns statistics; operators; paths; schema;"
        " operators.values operators.table; judge; results; show.console annotate.embed;"
        " trajectory; journey.case journey.case_faults report.field_metrics; tasks; spans;"
        " responses; journey report accuracy; engine; annotate mutate; compare; show; api;"
        " dataset scenario"
    ),
    "collector": (
        "key_filter problem split;"
        " settings metrics log_lines process prices; log store; fleet.tokens;"
        " care access;"
        " items; worker; alerts results exemplars;"
        " judging receivers; operation;"
        " comparing labelling served; api; web; desk; app;"
        " fleet; service care_commands; commands demo"
    ),
}
"""Rows of rooms, the lowest first. A module with a row of its own counts as apart from its room."""
RANKS = {
    base: {
        f"{base}.{name}": rank for rank, row in enumerate(rows.split(";")) for name in row.split()
    }
    for base, rows in ROWS.items()
}
FILES = sorted(
    path for package in ("scouter", "collector") for path in (ROOT / package).rglob("*.py")
)


def module_of(path: Path) -> str:
    """The dotted name of a file; that of its folder for an `__init__`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported(source: str) -> tuple[str, ...]:
    """Every project module that a source imports, inside functions too."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
    return tuple(found)


def ranked(name: str, base: str) -> str:
    """The longest part of a name that has a row in a base; raises if there is none."""
    parts = name.split(".")
    for size in range(len(parts), base.count(".") + 1, -1):
        if ".".join(parts[:size]) in RANKS[base]:
            return ".".join(parts[:size])
    raise LookupError(f"{name} has no row in {base}")


def violations(module: str, source: str) -> list[str]:
    """Imports that a module must not have, as one of its room, such as `scouter.queue`."""
    package, part = module.split(".")[:2]
    own = f"{package}.{part}"
    found: list[str] = []
    for name in imported(source):
        head, *rest = name.split(".")
        if head not in ("scouter", "collector"):
            continue
        if not rest:
            found.append(f"{module} imports the whole of {head}")
        elif head == package:
            is_own = f"{head}.{rest[0]}" == own
            target = ranked(name, head)
            if not is_own and RANKS[head][target] >= RANKS[head][own]:
                found.append(f"{module} imports {target}")
        elif package == "scouter":
            found.append(f"{module} imports {head}.{rest[0]}")
    return found


def upward(module: str, source: str, base: str) -> list[str]:
    """Imports inside a base room, such as `scouter.evaluate`, that go up or sideways.

    Modules of one room are free among each other, as no circle is allowed anywhere.
    """
    own, room = ranked(module, base), module.split(".")[: base.count(".") + 2]
    found: list[str] = []
    for name in imported(source):
        if name.startswith(f"{base}.") and name.split(".")[: len(room)] != room:
            target = ranked(name, base)
            if RANKS[base][target] >= RANKS[base][own]:
                found.append(f"{module} imports {target}")
    return found


def graph_of(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that each module imports, at its top, inside functions and for types alone."""
    return {
        module: {
            name if name in sources else name.rpartition(".")[0]
            for name in imported(source)
            if name in sources or name.rpartition(".")[0] in sources
        }
        - {module}
        for module, source in sources.items()
    }


def circles(graph: Mapping[str, Set[str]]) -> list[list[str]]:
    """Groups of modules of which each can be reached from each; Tarjan 1972, without recursion."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []
    for start in graph:
        stack: list[tuple[str, Iterator[str]]] = [(start, iter(()))] if start not in number else []
        while stack:
            node, rest = stack.pop()
            if node not in number:
                number[node] = low[node] = len(number)
                path.append(node)
                rest = iter(graph[node] & graph.keys())
            target = next(rest, None)
            if target is None:
                if low[node] == number[node]:
                    at = path.index(node)
                    found += [sorted(path[at:])] if len(path) - at > 1 else []
                    for left in path[at:]:
                        low[left] = len(graph)  # in no later circle
                    del path[at:]
                elif stack:
                    above = stack[-1][0]
                    low[above] = min(low[above], low[node])
                continue
            stack.append((node, rest))
            if target not in number:
                stack.append((target, iter(())))
            else:
                low[node] = min(low[node], low[target])
    return found


SOURCES = {
    module_of(path): path.read_text(encoding="utf-8")
    for path in FILES
    if path.name != "__init__.py"  # the public surface: it may re-export from any room
}


def test_imports_only_lower_rows() -> None:
    """A module may import its own room, lower rows and, from the collector, the SDK."""
    assert [each for m, source in SOURCES.items() for each in violations(m, source)] == []


def test_rooms_of_evaluate_import_only_lower_rooms() -> None:
    base = "scouter.evaluate"
    inside = {m: source for m, source in SOURCES.items() if m.startswith(f"{base}.")}
    assert [each for m, source in inside.items() for each in upward(m, source, base)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even inside functions or for types; a package's `__init__` is no module here."""
    graph = graph_of(SOURCES)
    assert len(graph) > 500
    assert circles(graph) == []


def test_package_surfaces_hold_nothing_else() -> None:
    """An `__init__` is docstring, imports, names; the functions allowed are those of modules."""
    surfaces = [path for path in FILES if path.name == "__init__.py"]
    found: list[str] = []
    for path in surfaces:
        source, module = path.read_text(encoding="utf-8"), module_of(path)
        found += (
            f"{module} defines {node.name}"
            for node in ast.parse(source).body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and node.name not in {"__getattr__", "__dir__"}
        )
        if module.startswith("scouter"):
            found += (
                f"{module} imports {name}"
                for name in imported(source)
                if name.startswith("collector")
            )
    assert len(surfaces) > 50
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "from scouter.tracing import tracer",
        "import scouter.replay.runner",
        "def f():\n    from scouter.drift.profile import AgentEvalProfile",
        "from collector.app import run",
        "import collector.store.store as store",
        "from scouter import drift",
        "import scouter",
        "if True:\n    import scouter.tracing.capture",
    ],
)
def test_the_rule_catches_planted_violations(source: str) -> None:
    """Each of these, planted in `scouter.evaluate`, is upward, to the root or to the service."""
    assert len(violations("scouter.evaluate", source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("scouter.evaluate.results.rows", "from scouter.evaluate.compare.runs import x"),
        ("scouter.evaluate.results.rows", "def f():\n    from scouter.evaluate.show import tables"),
        (
            "scouter.evaluate.files.read",
            "if TYPE_CHECKING:\n    from scouter.evaluate.tasks.base import TaskBase",
        ),
        ("scouter.evaluate.compare.runs", "import scouter.evaluate.api.records"),
        ("scouter.evaluate.tasks.base", "from scouter.evaluate.report.evaluator import x"),
        ("scouter.evaluate.show.console", "from scouter.evaluate.compare.data import x"),
        ("scouter.evaluate.scenario", "from scouter.evaluate.dataset import EvalDataset"),
    ],
)
def test_the_rule_catches_planted_violations_inside_evaluate(module: str, source: str) -> None:
    assert len(upward(module, source, "scouter.evaluate")) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("scouter.evaluate.api.records", "from scouter.evaluate.show.frame import frame"),
        ("scouter.evaluate.tasks.report", "from scouter.evaluate.report.field_metrics import x"),
        ("scouter.evaluate.engine.judged", "from scouter.evaluate.report.evaluator import x"),
        ("scouter.evaluate.show.tables", "from scouter.evaluate.show.console import emit"),
        ("scouter.evaluate.paths.path", "from scouter.model.span import Span"),
    ],
)
def test_the_rule_allows_what_goes_down(module: str, source: str) -> None:
    assert upward(module, source, "scouter.evaluate") == []


def test_a_module_without_a_row_is_told() -> None:
    with pytest.raises(LookupError, match=r"scouter\.evaluate\.attic\.box has no row"):
        upward("scouter.evaluate.attic.box", "", "scouter.evaluate")


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({"a.x": "import a.y", "a.y": ""}, []),
        ({"a.x": "import a.y", "a.y": "import a.x"}, [["a.x", "a.y"]]),
        ({"a.x": "from a import y", "a.y": "def f():\n    from a.x import g"}, [["a.x", "a.y"]]),
        (
            {"a.x": "import a.y", "a.y": "if TYPE_CHECKING:\n    from a.x import X"},
            [["a.x", "a.y"]],
        ),
        (
            {"a.x": "import b.y", "b.y": "import c.z", "c.z": "import a.x\nimport d.q", "d.q": ""},
            [["a.x", "b.y", "c.z"]],
        ),
        (
            {"a.x": "import a.y\nimport a.z", "a.y": "import a.w", "a.z": "import a.w", "a.w": ""},
            [],
        ),
        (
            {"a": "import b", "b": "import a\nimport c", "c": "import d", "d": "import c"},
            [["c", "d"], ["a", "b"]],
        ),
    ],
)
def test_planted_circles_are_found(sources: dict[str, str], found: list[list[str]]) -> None:
    assert sorted(circles(graph_of(sources))) == sorted(found)


@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef"))))
def test_circles_are_those_that_brute_force_finds(graph: dict[str, set[str]]) -> None:
    """Two names are in one circle if each leads to the other; held against all paths."""
    reach = {name: set(graph[name]) & graph.keys() for name in graph}
    for _ in graph:
        for name in graph:
            reach[name] |= {far for near in reach[name] for far in reach[near]}
    mutual = {
        frozenset({name, *(other for other in reach[name] if name in reach[other])})
        for name in graph
        if any(name in reach[other] for other in reach[name] - {name})
    }
    assert {frozenset(found) for found in circles(graph)} == mutual
