"""The JSON schema of a profile: what editors complete and complain about."""

import json
import re
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml
from jsonschema import Draft202012Validator

from scouter.drift.profile import AgentEvalProfile, shipped_folder, shipped_profiles

ROOT: Final = Path(__file__).parents[3]
PAGES: Final = [
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "profiles").glob("*.md"),
    ROOT / "README.md",
]
_BLOCK: Final = re.compile(r"^```(?:yaml|json)\n([\s\S]*?)^```|((?:^    .*\n|^\n)+)", re.MULTILINE)


def documented() -> list[Any]:
    """All profiles, lists of tasks and tasks that stand on a page, as profiles."""
    found: list[Any] = []
    for page in sorted(PAGES):
        for fenced, indented in _BLOCK.findall(page.read_text(encoding="utf-8")):
            try:
                value: Any = yaml.safe_load(fenced or indented)
            except yaml.YAMLError:
                continue  # no YAML, such as a shell's lines
            name = f"{page.relative_to(ROOT)} {len(found)}"
            tasks = cast("list[Any]", value if isinstance(value, list) else [value])
            if isinstance(value, dict) and "tasks" in value and "initial_query" not in value:
                found.append(pytest.param({"alias": "a", **cast("dict[str, Any]", value)}, id=name))
            elif all(isinstance(each, dict) and "task_type" in each for each in tasks) and tasks:
                found.append(pytest.param({"alias": "a", "tasks": tasks}, id=name))
    return found


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    found = AgentEvalProfile.model_json_schema()
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def faults(schema: Draft202012Validator, profile: Any) -> list[str]:
    return [error.message for error in schema.iter_errors(profile)]


@pytest.mark.parametrize("profile", documented())
def test_profiles_of_the_pages(schema: Draft202012Validator, profile: dict[str, Any]) -> None:
    assert faults(schema, profile) == []


@pytest.mark.parametrize("name", shipped_profiles())
def test_ready_made_profiles(schema: Draft202012Validator, name: str, tmp_path: Path) -> None:
    """As they are written, and as they are stored."""
    written = yaml.safe_load((shipped_folder() / f"{name}.yaml").read_text(encoding="utf-8"))
    assert faults(schema, written) == []
    saved = AgentEvalProfile.from_file(name).save_to_json(tmp_path / "p.json")
    assert faults(schema, json.loads(saved.read_text(encoding="utf-8"))) == []


COUNT: Final = "{task_type: TraceAssertion, id: t, operator: IsNumeric, assertion: %s}"


@pytest.mark.parametrize(
    ("task", "fault"),
    [
        ("{task_type: Assertion, id: t, context_path: x}", "'operator' is a required property"),
        ("{task_type: Assertion, id: t, operator: Equal}", "'Equal' is not one of"),
        ("{task_type: LLMJudge, id: t, operator: Equals}", "'prompt' is a required property"),
        ("{task_type: QA, id: t, modell: m, provider: p}", "('modell' was unexpected)"),
        ("{task_type: Code, id: t}", "'check' is a required property"),
        (COUNT % "{SpanCounts: {}}", "('SpanCounts' was unexpected)"),
        (COUNT % "{SpanCount: {}}", "'filter' is a required property"),
        (COUNT % "{SpanCount: {filter: {ByName: {nam: x}}}}", "('nam' was unexpected)"),
        (COUNT % "{SpanCount: {filter: {And: {filters: [{ByNam: {}}]}}}}", "'ByNam' is not one of"),
        (COUNT % "{TraceDuration: {}, TraceMaxDepth: {}}", "has too many properties"),
    ],
)
def test_a_fault_is_named_where_it_is(schema: Draft202012Validator, task: str, fault: str) -> None:
    value = yaml.safe_load(task)
    whole = cast("dict[str, Any]", schema.schema)
    kind = Draft202012Validator(
        {"$defs": whole["$defs"], "$ref": f"#/$defs/{value['task_type']}Task"}
    )
    assert any(fault in message for message in faults(kind, value)), faults(kind, value)
    assert faults(schema, {"alias": "a", "tasks": [value]})


@pytest.mark.parametrize("kind", ["Asertion", "Function", None])
def test_kinds_that_no_file_can_hold(schema: Draft202012Validator, kind: str | None) -> None:
    task = {"id": "t", "context_path": "x", "operator": "IsNotEmpty", "function": "f"}
    assert faults(schema, {"alias": "a", "tasks": [{**task, "task_type": kind}]})
