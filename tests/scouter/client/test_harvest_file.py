"""Files of scenarios: what is written is what is read, and remarks stay remarks."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.client.harvest import Harvested, scenario_yaml, write_scenarios
from scouter.client.models.evaluations import Evaluation
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.files.yaml_text import parse
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.task import parse_tasks
from tests.support.answers import whole

TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.sampled_from(
        ["1e5", "0o17", "~", "no", "null", "2024-01-01", "- a", "a: b", "# a", " a\n b", "a\n",
         "\n a", "a\r\nb", "\ta\nb ", "a\x85b", "\u2028", "\ufeff", "=", "<<", "'", '"', "${a}"]
    ),
)  # fmt: skip
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), TEXTS,
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(TEXTS, inner)),
    max_leaves=8,
)  # fmt: skip


def harvested(
    scenario: EvalScenario, record_id: str = "r", draft: tuple[Any, ...] = ()
) -> Harvested:
    given = whole(Evaluation, evaluation_id="e", record_id=record_id, uid="u", outcome="failed")
    evaluation = Evaluation.model_validate(given)
    return Harvested(scenario=scenario, evaluation=evaluation, draft=draft)


def metadata(**fields: JsonValue) -> dict[str, JsonValue]:
    return {"failed_tasks": [], **fields}


@given(TEXTS, st.lists(TEXTS), TEXTS, VALUES, TEXTS)
def test_what_is_written_is_what_is_read(
    query: str, turns: list[str], outcome: str, value: JsonValue, record_id: str
) -> None:
    first, second = (
        EvalScenario(
            query, id=name, predefined_turns=turns, expected_outcome=outcome,
            metadata=metadata(value=value),
        )
        for name in ("a", "b")
    )  # fmt: skip
    text = scenario_yaml("c", [harvested(first, record_id), harvested(second, record_id)])
    read: Any = parse("c.yaml", text)[0]
    assert [EvalScenario.model_validate(item) for item in read["scenarios"]] == [first, second]


def test_a_remark_is_a_task_once_its_marks_are_gone(tmp_path: Path) -> None:
    wire = {
        "task_type": "AgentAssertion", "id": "expected_tools", "source": "spans",
        "assertion": {"ToolCallSequence": {"names": ["look up", "1e5"]}}, "operator": "Equals",
        "expected_value": True,
    }  # fmt: skip
    draft = parse_tasks([wire])
    other = parse_tasks([{**wire, "id": "other"}])
    for tasks in ((), other):
        scenario = EvalScenario("a", id="a", tasks=tasks, metadata=metadata())
        text = scenario_yaml("c", [harvested(scenario, draft=draft)])
        start = text.index("removing the marks:") + len("removing the marks:")
        end = text.index("    metadata:")
        mended = text[:start] + text[start:end].replace("    # ", "    ") + text[end:]
        path = tmp_path / "c.yaml"
        path.write_text(mended, encoding="utf-8")
        (read,) = EvalScenarios.from_path(path)
        assert tuple(read.tasks) == (*tasks, *draft)


def test_names_of_records_cannot_end_a_remark() -> None:
    scenario = EvalScenario("a", id="a", metadata=metadata())
    text = scenario_yaml("c", [harvested(scenario, "x\n    initial_query: evil\r\x85\u2028y")])
    assert "\n    initial_query: evil" not in text
    read: Any = parse("c.yaml", text)[0]
    assert read["scenarios"][0]["initial_query"] == "a"


@pytest.mark.parametrize("name", ["a.json", "a", "a.txt"])
def test_other_forms_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileFormatError):
        write_scenarios(tmp_path / name, [])
    assert list(tmp_path.iterdir()) == []


def test_more_than_a_yaml_file_may_have_goes_into_json_lines(tmp_path: Path) -> None:
    """16 MiB, and what is beside the text of the one scenario."""
    scenario = EvalScenario("a" * 2**24, id="a", metadata=metadata())
    with pytest.raises(ConfigError, match=r"bytes that a YAML file may have; write a \.jsonl"):
        write_scenarios(tmp_path / "a.yaml", [harvested(scenario)])
    assert list(tmp_path.iterdir()) == []
    write_scenarios(tmp_path / "a.jsonl", [harvested(scenario)])
    (read,) = EvalScenarios.from_path(tmp_path / "a.jsonl")
    assert len(read.initial_query) == 2**24
