"""Everything that is read from a file: valid files, changed a little, give a value or one error.

Only a `ConfigError` may come out, it names the file, and it does not take long.
"""

import contextlib
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.scenario import EvalScenarios
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.task import TasksFile
from tests.support.examples import examples
from tests.support.replay_results import record, task

ROOT = Path(__file__).parents[2]
DOCUMENTS = ROOT / "tests" / "documents"

TASKS: list[dict[str, Any]] = [
    {"task_type": "Assertion", "id": "a", "context_path": "x[0].y", "operator": "Matches",
     "expected_value": "^é+$", "item_context_path": "z", "condition": True},
    {"task_type": "LLMJudge", "id": "b", "operator": "GreaterThan", "expected_value": 3,
     "context_path": "score", "depends_on": ["a"],
     "prompt": {"messages": "Rate ${x}", "model": "m", "provider": "openai"}},
    {"task_type": "TraceAssertion", "id": "c", "operator": "Equals", "expected_value": 1,
     "assertion": {"SpanCount": {"filter": {"And": {"filters": [
         {"ByName": {"name": "n"}}, {"WithDuration": {"min_ms": 1.0, "max_ms": None}}]}}}}},
    {"task_type": "AgentAssertion", "id": "d", "operator": "Equals", "expected_value": True,
     "assertion": {"ToolCalledWithArgs": {"name": "t", "arguments": {"k": [1, None]}}}},
]  # fmt: skip
SCENARIOS: dict[str, Any] = {
    "collection_id": "c",
    "gates": {"min_pass_rate": 0.5, "aliases": {"a": {"min_pass_rate": 1, "tasks": {"t": 0.5}}}},
    "scenarios": [
        {"id": "s1", "initial_query": "Wo liegt Köln?", "tasks": TASKS[:1], "max_turns": 3,
         "predefined_turns": ["Danke"], "metadata": {"k": [1, {"z": None}]}},
        {"id": "s2", "initial_query": "q", "simulated_user_persona": "p",
         "termination_signal": "DONE", "expected_outcome": "o",
         "tasks": {"assertion": [{k: v for k, v in TASKS[0].items() if k != "task_type"}],
                   "judge": [], "trace": [], "agent": []}},
    ],
}  # fmt: skip


def replay() -> ScenarioEvalResults:
    """A small run with one of each outcome."""
    results = EvalResults([record("r1", {"t": True, "u": False}), record("r2", {"t": "lost"})])
    judged = [ScenarioResult.of("s", "query", [task("t", True)], results)]
    return ScenarioEvalResults(
        dataset_results={"alias": results},
        scenario_results=tuple(judged),
        metrics=EvalMetrics.of({"alias": results}, judged),
    )


RUN = replay()

Load = Callable[[Path], object]
LOADERS: dict[str, tuple[Load, list[Any]]] = {
    "scenarios": (EvalScenarios.from_path, [SCENARIOS, SCENARIOS["scenarios"]]),
    "tasks": (TasksFile.from_path, [TASKS, {"tasks": TASKS}]),
    "task": (AssertionTask.from_path, TASKS[:1]),
    "prompt": (Prompt.from_path, [TASKS[1]["prompt"]]),
    "profile": (
        AgentEvalProfile.from_file,
        [
            yaml.safe_load((ROOT / "profiles" / "agent_health.yaml").read_text(encoding="utf-8")),
            {"alias": "é", "tasks": TASKS, "config": {"name": "n", "space": "s"}},
        ],
    ),
    "replay": (ScenarioEvalResults.load, [json.loads(RUN.model_dump_json())]),
    "comparison": (
        ScenarioComparisonResults.load,
        [json.loads(RUN.compare_to(RUN).model_dump_json())],
    ),
}
TEXTS = {
    ".yaml": [path.read_text(encoding="utf-8") for path in (ROOT / "profiles").glob("*.yaml")],
    ".jsonl": [(DOCUMENTS / "qa_suite.jsonl").read_text(encoding="utf-8")],
    ".json": [path.read_text(encoding="utf-8") for path in DOCUMENTS.glob("qa_suite_*.json")],
}

BOUNDED = settings(
    deadline=timedelta(seconds=5),
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

odd_values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -1, 1e308, "", " ", "é", "\U0001f680", "${x}", "${", "a[", "(", "NaN",
                     "\x00", "x" * 5000, [], {}, [[]], {"": None}, {"path": "nowhere.yaml"}]),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=4), st.none(), max_size=2),
)  # fmt: skip


def places(value: Any, loc: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(cast(dict[str, Any], value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast(list[Any], value)))
    return [loc, *(place for key, item in items for place in places(item, (*loc, key)))]


def changed(draw: st.DrawFn, value: Any) -> Any:
    """Replace, remove, rename or repeat one part of a value."""
    value = json.loads(json.dumps(value))
    loc = draw(st.sampled_from(places(value)))
    if not loc:
        return draw(odd_values)
    parent = value
    for part in loc[:-1]:
        parent = parent[part]
    kind = draw(st.sampled_from(["replace", "remove", "rename", "repeat"]))
    item = parent[loc[-1]]
    if kind == "replace":
        parent[loc[-1]] = draw(odd_values)
    elif kind == "remove":
        del parent[loc[-1]]
    elif isinstance(parent, list):
        cast(list[Any], parent).insert(draw(st.integers(0, 3)), item)
    else:
        parent[draw(st.text(max_size=6))] = item
    return value


def written(value: Any, extension: str) -> str:
    if extension == ".yaml":
        return yaml.safe_dump(value, allow_unicode=True, width=_width(value))
    return json.dumps(value, ensure_ascii=False)


def _width(value: Any) -> int:
    """Lines of YAML that are wrapped, or not: both forms are read."""
    return 20 if len(str(value)) % 2 else 1_000


def try_to_load(load: Load, path: Path) -> None:
    said = str(path)
    try:
        load(path)
    except ConfigError as error:
        said = str(error)
    assert str(path) in said


@pytest.mark.parametrize("name", LOADERS)
@given(data=st.data())
@pytest.mark.pace
@BOUNDED
def test_changed_values(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """The structure changes: other types, missing and unknown fields, repeated ids."""
    load, seeds = LOADERS[name]

    @st.composite
    def mutant(draw: st.DrawFn) -> Any:
        value = draw(st.sampled_from(seeds))
        for _ in range(draw(st.integers(1, 3))):
            value = changed(draw, value)
        return value

    is_stored = name in {"replay", "comparison"}
    extension = ".json" if is_stored else data.draw(st.sampled_from([".json", ".yaml"]))
    path = tmp_path / f"f{extension}"
    path.write_text(written(data.draw(mutant()), extension), encoding="utf-8")
    try_to_load(load, path)


@pytest.mark.parametrize("extension", TEXTS)
@given(data=st.data())
@pytest.mark.pace
@BOUNDED
def test_changed_bytes(tmp_path: Path, extension: str, data: st.DataObject) -> None:
    """The text changes: cut off, spliced, with bytes that mean something to a parser."""
    content = bytearray(data.draw(st.sampled_from(TEXTS[extension])).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        length = data.draw(st.integers(0, 30))
        piece = data.draw(
            st.binary(max_size=6)
            | st.sampled_from([b"\n", b"- ", b": ", b"{", b"[" * 300, b"&a ", b"*a", b"!!set ",
                               b"'", b'"', b"\xff", b"\x00", b"NaN", b"1e999", b"<<: ", b"\t"])
        )  # fmt: skip
        content[at : at + length] = piece
    path = tmp_path / f"f{extension}"
    path.write_bytes(bytes(content))
    try_to_load(EvalScenarios.from_path, path)
    if extension != ".jsonl":
        try_to_load(AgentEvalProfile.from_file, path)
        try_to_load(TasksFile.from_path, path)


RESULT_TEXTS: dict[str, tuple[Callable[[str], object], Any, type[Exception]]] = {
    "results": (
        EvalResults.model_validate_json,
        json.loads(RUN.dataset_results["alias"].model_dump_json()),
        ConfigError,
    ),
    "scenarios": (EvalScenarios.model_validate_json, SCENARIOS, ValueError),
    "profile": (
        AgentEvalProfile.model_validate_json,
        {"alias": "é", "tasks": TASKS, "config": {"name": "n", "space": "s"}},
        ValueError,
    ),
}


@pytest.mark.parametrize("name", RESULT_TEXTS)
@given(data=st.data())
@pytest.mark.pace
@BOUNDED
def test_changed_texts(name: str, data: st.DataObject) -> None:
    """A text instead of a file gives a value, or one of pydantic's and our own errors."""
    read, seed, error_type = RESULT_TEXTS[name]

    @st.composite
    def mutant(draw: st.DrawFn) -> Any:
        return changed(draw, changed(draw, seed))

    with contextlib.suppress(error_type):
        assert read(json.dumps(data.draw(mutant()))) is not None
