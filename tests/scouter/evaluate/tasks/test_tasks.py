"""Tasks as people write them: constructors, wire forms, files, digests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
from scouter.evaluate.tasks.task import (
    TasksFile,
    parse_task,
    parse_tasks,
    tasks_adapter,
    tasks_digest,
)
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask

YAML = """\
tasks:
  - task_type: Assertion
    id: Has_Text
    context_path: response.text
    operator: HasLengthGreaterThan
    expected_value: 5
  - task_type: TraceAssertion
    id: latency
    assertion: {TraceDuration: {}}
    operator: LessThan
    expected_value: 5000
    depends_on: [HAS_TEXT]
  - task_type: AgentAssertion
    id: searched
    assertion: {ToolCalled: {name: search}}
    operator: Equals
    expected_value: true
"""


def test_positional_order_of_the_constructors() -> None:
    assert AssertionTask(
        "A", "x.y", 5, Op.Equals, "z", "words", ["B"], True
    ).model_dump() == AssertionTask(
        id="a", context_path="x.y", expected_value=5, operator=Op.Equals, item_context_path="z",
        description="words", depends_on=["b"], condition=True,
    ).model_dump()  # fmt: skip
    trace = TraceAssertionTask(
        "A", TraceAssertion.trace_duration(), 5, Op.LessThan, "d", ["B"], True
    )
    assert (trace.id, trace.depends_on, trace.condition) == ("a", ["b"], True)
    agent = AgentAssertionTask(
        "A", AgentAssertion.tool_called("x"), True, Op.Equals, "d", ["B"], True, "openai", "r"
    )
    assert (agent.provider, agent.context_path, agent.source) == ("openai", "r", "context")


def test_arguments_that_do_not_fit_python() -> None:
    make = cast(Callable[..., object], AssertionTask)
    with pytest.raises(TypeError, match="got 9"):
        make(*range(9))
    with pytest.raises(TypeError, match="'id' twice"):
        make("a", id="b")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"operator": "Eq", "id": "a", "expected_value": 1}, "operator"),
        ({"id": "a", "expected_value": 1}, "operator"),
        ({"operator": "Equals", "expected_value": 1}, "id"),
        ({"operator": "Equals", "id": "", "expected_value": 1}, "id"),
        ({"operator": "Equals", "id": "a"}, "Equals needs an expected_value"),
        ({"operator": "Equals", "id": "a", "expected_value": 1, "typo": 2}, "typo"),
        ({"operator": "Equals", "id": "a", "expected_value": object()}, "no JSON form"),
        ({"operator": "Equals", "id": "a", "expected_value": 1, "depends_on": "b"}, "depends_on"),
    ],
)
def test_fields_that_are_wrong(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        parse_task({"task_type": "Assertion", **fields})


def test_operators_that_assert_a_property_need_no_expected_value() -> None:
    assert parse_task({"task_type": "Assertion", "id": "a", "operator": "IsString"})


def test_tasks_do_not_change() -> None:
    task = AssertionTask("a", "x", 1, Op.Equals)
    with pytest.raises(ValidationError):
        task.id = "b"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("assertion", "words"),
    [
        ({"SpanCnt": {}}, "unknown kind 'SpanCnt'; expected one of SpanSequence"),
        ({}, "exactly one key"),
        ({"TraceDuration": {}, "TraceSpanCount": {}}, "exactly one key"),
        ("TraceDuration", r"write {TraceDuration: {}}"),
        (5, "an object with one key"),
        ({"SpanCount": {}}, "SpanCount.filter"),
        ({"SpanCount": {"filter": {"ByName": {"name": 5}}}}, "SpanCount.filter.ByName.name"),
        ({"SpanCount": {"filter": {"WithDuration": {}}}}, "min_ms, max_ms or both"),
        ({"SpanCount": {"filter": {"And": {"filters": [{"By": 1}]}}}}, r"And.filters.0"),
    ],
)
def test_wrong_assertions_name_their_place(assertion: object, words: str) -> None:
    wire = {"task_type": "TraceAssertion", "id": "a", "operator": "Equals", "expected_value": 1}
    with pytest.raises(ValidationError, match=words):
        parse_task({**wire, "assertion": assertion})


def test_assertions_are_members_of_their_family() -> None:
    """As users of the original look at them."""
    count = TraceAssertion.span_count(SpanFilter.by_name("llm"))
    assert isinstance(count, TraceAssertion.SpanCount)
    assert isinstance(count.filter, SpanFilter.ByName)
    assert count.filter.name == "llm"
    joined = SpanFilter.by_name("a").and_(SpanFilter.with_status(SpanStatus.Ok)).and_(count.filter)
    assert isinstance(joined, SpanFilter.And)
    assert len(joined.filters) == 3
    assert isinstance(AgentAssertion.tool_call_count(), AgentAssertion.ToolCallCount)
    assert TraceAssertion.SpanCount(filter=SpanFilter.by_name("llm")) == count


def test_wire_form_of_assertions() -> None:
    filter = SpanFilter.by_name("a").or_(SpanFilter.with_attribute_value("k", (1, 2))).not_()
    task = TraceAssertionTask("t", TraceAssertion.span_count(filter), 1, Op.Equals)

    assert json.loads(task.model_dump_json()) == {
        "task_type": "TraceAssertion",
        "id": "t",
        "assertion": {
            "SpanCount": {
                "filter": {
                    "Not": {
                        "filter": {
                            "Or": {
                                "filters": [
                                    {"ByName": {"name": "a"}},
                                    {"WithAttributeValue": {"key": "k", "value": [1, 2]}},
                                ]
                            }
                        }
                    }
                }
            }
        },
        "expected_value": 1,
        "operator": "Equals",
        "description": None,
        "depends_on": [],
        "condition": False,
    }
    adapter = tasks_adapter()
    assert adapter.validate_json(adapter.dump_json((task,))) == (task,)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "tasks.yaml"
    path.write_text(YAML, encoding="utf-8")
    tasks = TasksFile.from_path(path)

    assert [task.id for task in tasks] == ["has_text", "latency", "searched"]
    assert [task.id for task in tasks] == ["has_text", "latency", "searched"]  # and again
    assert len(tasks) == 3
    assert tasks[1].depends_on == ["has_text"]
    assert [task.id for task in tasks[:2]] == ["has_text", "latency"]
    assert parse_tasks(tasks) == tasks.tasks

    bare = tmp_path / "tasks.json"
    bare.write_text(json.dumps([t.model_dump(mode="json") for t in tasks]), encoding="utf-8")
    assert TasksFile.from_path(bare).tasks == tasks.tasks


def test_a_wrong_file_names_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "tasks.yaml"
    path.write_text(YAML.replace("LessThan", "Less"), encoding="utf-8")
    with pytest.raises(FileFormatError) as caught:
        TasksFile.from_path(path)
    assert caught.value.line == 10
    assert caught.value.field == "tasks[1].operator"


def test_one_task_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    path.write_text('{"id": "A", "operator": "IsString", "context_path": "x"}', encoding="utf-8")
    assert AssertionTask.from_path(path).id == "a"


def test_buckets() -> None:
    plain = {"id": "a", "operator": "IsString"}
    trace: dict[str, Any] = {
        "id": "b", "operator": "Equals", "expected_value": 1,
        "assertion": {"TraceSpanCount": {}},
    }  # fmt: skip
    tasks = parse_tasks({"assertion": [plain], "judge": [], "trace": [trace], "agent": []})
    assert [(task.id, task.task_type) for task in tasks] == [
        ("a", "Assertion"),
        ("b", "TraceAssertion"),
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"judge": 5}, "tasks.judge: expected a list"),
        ({"assertions": []}, "'assertions'"),
        ({"trace": 5}, "tasks.trace: expected a list"),
        ("text", "expected a list of tasks"),
        (5, "expected a list of tasks"),
        (AssertionTask("a", "v", 1, Op.Equals), "expected a list of tasks, got AssertionTask"),
        ([AssertionTask("a", "v", 1, Op.Equals), 1], r"tasks\[1\]: expected a task, got int"),
    ],
)
def test_what_is_no_list_of_tasks(value: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_tasks(value)


def test_digest_follows_content() -> None:
    one = AssertionTask("a", "x", 1, Op.Equals)
    same = parse_task(one.model_dump(mode="json"))
    described = AssertionTask("A", "x", 1, Op.Equals, description="words")
    other = AssertionTask("a", "x", 2, Op.Equals)

    assert tasks_digest([one]) == tasks_digest([same]) == tasks_digest([described])
    assert tasks_digest([one]) != tasks_digest([other])
    assert len(tasks_digest([one])) == 64
