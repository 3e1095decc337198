"""Rules for every test."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
FILES: Final = sorted(TESTS.rglob("test_*.py"))
MODULES: Final = sorted(
    path for path in TESTS.rglob("*.py") if "bench" not in path.relative_to(TESTS).parts
)
CLOCKS: Final = frozenset({"monotonic", "perf_counter", "process_time", "thread_time"})


def is_clock(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr) in {("time", name) for name in CLOCKS}
    )


def is_span_of_time(node: ast.AST) -> bool:
    """True if a time is subtracted from a clock's time."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and any(map(is_clock, ast.walk(node)))
    )


def is_bounded(function: ast.FunctionDef) -> bool:
    """True if a test asserts that something takes less than a number of seconds."""
    names = {
        target.id
        for each in ast.walk(function)
        if isinstance(each, ast.Assign) and any(map(is_span_of_time, ast.walk(each.value)))
        for place in each.targets
        for target in ast.walk(place)
        if isinstance(target, ast.Name)
    }
    return any(
        is_span_of_time(part) or (isinstance(part, ast.Name) and part.id in names)
        for each in ast.walk(function)
        if isinstance(each, ast.Assert) and isinstance(each.test, ast.Compare)
        if any(isinstance(side, ast.Constant) for side in each.test.comparators)
        for part in ast.walk(each.test)
    )


def unmarked(text: str) -> Iterator[str]:
    """Tests that hold a time against a number and are not marked `pace`."""
    if "time." not in text:
        return  # to read all of them as Python takes seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = {ast.unparse(each) for each in node.decorator_list}
            if "pytest.mark.pace" not in marks and is_bounded(node):
                yield node.name


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("began = time.monotonic()\n assert time.monotonic() - began < 5", True),
        ("took = time.perf_counter() - 1\n assert took < 5", True),
        ("a, b = time.process_time() - 1, 2\n assert (a + 1) / 50 < 5", True),
        ("until = time.monotonic() + 5\n assert time.monotonic() < until", False),
        ("size = len(x) - 1\n assert size < 5", False),
    ],
)
def test_a_bound_on_time_is_seen(body: str, found: bool) -> None:
    text = f"def test_a():\n {body}\n"
    assert list(unmarked(text)) == ["test_a"] * found
    assert list(unmarked(f"@pytest.mark.pace\n{text}")) == []


def test_only_those_marked_pace_hold_a_time_against_a_number() -> None:
    """Other tests wait for an event: a machine that is busy must not fail a build."""
    found = {
        f"{path.relative_to(TESTS)}::{name}"
        for path in FILES
        for name in unmarked(path.read_text(encoding="utf-8"))
    }
    assert found == set()


EVENTS: Final = frozenset({"communicate", "join", "result", "settimeout", "timeout", "wait"})
"""Methods whose only argument is often a time."""
REQUESTS: Final = frozenset(
    {"AsyncClient", "Client", "delete", "get", "patch", "post", "put", "request", "stream"}
)


def is_short(node: ast.expr) -> bool:
    """True for a time in which an event may come or not: no glance, and no patience either."""
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int | float) and 2 <= value < 120


def is_impatient(call: ast.Call) -> bool:
    """True if a call waits for an event, and a machine that is busy may be too slow for it."""
    function = call.func
    name = getattr(function, "attr", getattr(function, "id", ""))
    where = getattr(getattr(function, "value", None), "id", "")
    named = {each.arg: each.value for each in call.keywords}
    if where == "httpx" and name in REQUESTS and not {"timeout", "transport", None} & named.keys():
        return True  # httpx's own is 5 s
    times = [named.get("timeout")]
    if name.startswith("wait_"):
        times.append(named.get("timeout_s"))
    is_method = isinstance(function, ast.Attribute)
    if (is_method and len(call.args) == 1 and name in EVENTS) or (where, name) == (
        "asyncio",
        "wait_for",
    ):
        times.append(call.args[-1])
    return any(map(is_short, filter(None, times)))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("thread.join(10)", True),
        ("future.result(20.0)", True),
        ("subprocess.run(args, timeout=60)", True),
        ("await asyncio.wait_for(main(), 5)", True),
        ("wait_until(check, what='it', timeout_s=30)", True),
        ("httpx.get(url)", True),
        ("httpx.get(url, timeout=120)", False),
        ("wait_until(check, what='it')", False),
        ("event.wait(0.2)", False),  # nothing comes, which shows at once if something does
        ("', '.join(names)", False),
        ("result(2)", False),
    ],
)
def test_a_wait_that_may_be_too_short_is_seen(code: str, found: bool) -> None:
    (call, *_) = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    assert is_impatient(call) == found


def test_a_wait_for_an_event_is_of_minutes() -> None:
    """The event ends it, so that patience costs nothing; a busy machine must not fail a build."""
    found = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and is_impatient(node)
    ]
    assert not found, "wait for two minutes at least, or with `wait_until`"


def outside_of_tests(module: ast.Module) -> Iterator[ast.AST]:
    """Everything that runs when a module is collected, decorators of its functions included."""
    waiting: list[ast.AST] = list(module.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += node.decorator_list
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


def test_a_missing_part_skips_tests_and_no_collection() -> None:
    """A skip outside of a test is an error of the whole run."""
    asked = {"load_vectors", "require", "require_program"}
    texts = {path: path.read_text(encoding="utf-8") for path in FILES}
    found = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path, text in texts.items()
        if any(name in text for name in asked)
        for node in outside_of_tests(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in asked
    ]
    assert not found, "ask for the part inside the test"
