"""A fault of a dataset is reported with its place."""

from typing import Any

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.journey.case import read_case
from scouter.evaluate.journey.case_faults import faults_of
from tests.support.journeys import HR, hr


def changed(**changes: Any) -> dict[str, Any]:
    """The dataset with another first goal."""
    dataset = hr()
    dataset["goal_details"][0].update(changes)
    return dataset


CYCLE = {"get_assignment_id_hr_agent-1": ["get_timeoff_schedule_hr_agent-1"],
         "get_timeoff_schedule_hr_agent-1": ["summarize"],
         "summarize": ["get_assignment_id_hr_agent-1"]}  # fmt: skip


@pytest.mark.parametrize(
    ("dataset", "loc", "words", "is_lenient"),
    [
        (hr(story=""), ("story",), "at least one letter", True),
        (hr(goals=[]), ("goals",), "does not fit", True),
        (hr(goals={}), ("goals",), "it is empty", True),
        (hr(goal_details=[]), ("goal_details",), "at least one goal", True),
        (hr(user_prompts="yes"), ("user_prompts",), "list of texts", True),
        (hr(max_user_turns=0), ("max_user_turns",), "from 1", False),
        (changed(type="toolcall"), ("goal_details", 0, "type"), "did you mean 'tool_call'", True),
        (changed(args=[1]), ("goal_details", 0, "args"), "no object", True),
        (changed(arg_matching={"username": "fuzy"}),
         ("goal_details", 0, "arg_matching", "username"),
         "did you mean 'fuzzy'", True),
        (changed(arg_matching={"user": "fuzzy"}), ("goal_details", 0, "arg_matching", "user"),
         "args has no 'user'", True),
        (changed(name="other"), ("goals", "get_assignment_id_hr_agent-1"), "details has no", True),
        (hr(goals={**HR["goals"], "summarize": ["sumarize"]}), ("goals", "summarize", 0),
         "did you mean 'summarize'", True),
        (changed(tool_name=None), ("goal_details", 0, "tool_name"), "name of the tool", False),
        (changed(type="tool_response"), ("goal_details", 0, "type"), "never succeed", False),
        (changed(name="summarize"), ("goals", "get_assignment_id_hr_agent-1"), "has no", True),
        (hr(goals=CYCLE), ("goals", "get_assignment_id_hr_agent-1"), "go in a circle", False),
        (hr(goals={**HR["goals"], "summarize": "x"}), ("goals", "summarize"), "no list", False),
        (changed(tool_nam="x", tool_name=None), ("goal_details", 0, "tool_nam"),
         "did you mean 'tool_name'", False),
    ],
)  # fmt: skip
def test_faults(dataset: Any, loc: Any, words: str, is_lenient: bool) -> None:
    found = faults_of(dataset)
    assert any(fault.loc == loc and words in str(fault) for fault in found), found
    assert bool(faults_of(dataset, is_lenient=True)) is is_lenient
    with pytest.raises(ConfigError, match="the dataset"):
        read_case(dataset)


def test_repeated_names_and_foreign_notes() -> None:
    dataset = hr(mine_fields=[1], response_summary_version="v2", context_variables={})
    assert faults_of(dataset) == []
    dataset["goal_details"].append(dict(dataset["goal_details"][0]))
    (fault,) = faults_of(dataset)
    assert fault.loc == ("goal_details", 3, "name")
    assert "2 goals are called 'get_assignment_id_hr_agent-1'" in str(fault)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ({"kind": "observed", "check": ""}, "check"),
        ({"kind": "sometimes", "check": "x"}, "observed or policy"),
        ({"kind": "policy", "check": "x", "scope": "all"}, "conversation or response"),
        ({"kind": "policy", "check": "x", "name": "n"}, "no such field"),
    ],
)
def test_statements(check: dict[str, Any], words: str) -> None:
    dataset = hr()
    dataset["goal_details"].append({"type": "assert_llm", **check})
    assert any(words in str(fault) for fault in faults_of(dataset))
