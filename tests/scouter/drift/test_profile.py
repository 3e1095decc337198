"""AgentEvalProfile: identity, files, and what is refused when it is built."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from scouter.alert.config import (
    AgentAlertConfig,
    AlertCondition,
    CommonCrons,
    Dispatch,
    OpsGenieDispatchConfig,
    SlackDispatchConfig,
)
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile, find_profile, shipped_folder, shipped_profiles
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import DriftType


def has_results(limit: int = 1) -> AssertionTask:
    return AssertionTask(
        id="has_results",
        context_path="results.count",
        operator=ComparisonOperator.GreaterThanOrEqual,
        expected_value=limit,
    )


def three_kinds() -> list[Task]:
    return [
        has_results(),
        TraceAssertionTask(
            id="spans",
            assertion=TraceAssertion.span_count(
                SpanFilter.by_name("a").and_(SpanFilter.by_name("b"))
            ),
            operator=ComparisonOperator.Equals,
            expected_value=1,
            depends_on=["has_results"],
        ),
        AgentAssertionTask(
            id="called",
            assertion=AgentAssertion.tool_called("search"),
            operator=ComparisonOperator.Equals,
            expected_value=True,
        ),
    ]


def test_the_digest_is_of_the_tasks_alone() -> None:
    """Alias, version and alert do not change what a record is judged by; a task does."""
    alert = AgentAlertConfig(alert_condition=AlertCondition(0.9, "Below"))
    first = AgentEvalProfile(alias="a", tasks=[has_results()])
    renamed = AgentEvalProfile(
        alias="b",
        tasks=[has_results()],
        config=AgentEvalConfig(version="2.0.0", alert_config=alert),
    )
    changed = AgentEvalProfile(alias="a", tasks=[has_results(limit=2)])

    assert first.digest == renamed.digest
    assert first.digest != changed.digest
    assert len({first.uid, renamed.uid, changed.uid}) == 3


def test_the_same_profile_has_the_same_uid_elsewhere() -> None:
    assert (
        AgentEvalProfile(alias="a", tasks=[has_results()]).uid
        == AgentEvalProfile(alias="a", tasks=[has_results()]).uid
    )


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_profile_survives_a_file(tmp_path: Path, suffix: str) -> None:
    """JSON is what `save_to_json` writes; YAML is the same content."""
    profile = AgentEvalProfile(
        alias="retriever",
        tasks=three_kinds(),
        config=AgentEvalConfig(
            alert_config=AgentAlertConfig(alert_condition=AlertCondition(0.9, "Below", 0.05))
        ),
    )
    path = tmp_path / f"profile.{suffix}"
    if suffix == "json":
        profile.save_to_json(path)
    else:
        path.write_text(yaml.safe_dump(profile.model_dump(mode="json")), encoding="utf-8")

    back = AgentEvalProfile.from_file(path)

    assert back == profile
    assert (back.uid, back.digest) == (profile.uid, profile.digest)


def test_the_name_is_the_alias_unless_the_config_has_one() -> None:
    assert AgentEvalProfile(alias="a", tasks=[has_results()]).name == "a"
    named = AgentEvalProfile(tasks=[has_results()], config=AgentEvalConfig(name="n"))
    assert (named.name, named.alias) == ("n", "n")


@pytest.mark.parametrize("name", ["", "__missing__", "default_genai_profile"])
def test_neither_alias_nor_name_is_enough_to_judge_by(name: str) -> None:
    """The original calls such a profile `default_genai_profile`, and its files say no alias."""
    profile = AgentEvalProfile(tasks=[has_results()])
    config = {**FOREIGN["config"], "name": name, "space": "default"}
    foreign = {**FOREIGN, "tasks": [has_results()], "alias": None, "config": config}

    assert (profile.alias, profile.name, profile.space) == (
        "default_genai_profile", "default_genai_profile", "default",
    )  # fmt: skip
    assert not profile.is_named
    assert AgentEvalProfile.model_validate(foreign).uid == profile.uid
    assert AgentEvalProfile(tasks=[has_results()], alias="a").is_named
    assert profile.drift_type is DriftType.GenAI


@pytest.mark.parametrize("tasks", [[], None])
def test_no_tasks_is_refused(tasks: list[Task] | None) -> None:
    with pytest.raises((ConfigError, ValidationError)):
        AgentEvalProfile(alias="a", tasks=tasks)


def test_a_cycle_is_refused_and_named() -> None:
    """The profile, and both tasks, are in the message."""
    first = has_results().model_copy(update={"depends_on": ("second",)})
    second = has_results().model_copy(update={"id": "second", "depends_on": ("has_results",)})

    with pytest.raises(ConfigError, match=r"'a'.*has_results.*second|'a'.*second.*has_results"):
        AgentEvalProfile(alias="a", tasks=[first, second])


TASK = "  - {task_type: Assertion, id: x, context_path: y, operator: Equals, expected_value: 1}\n"


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        (f"alias: a\ntasks:\n{TASK.replace('Equals', 'Eq')}", 3, "operator"),
        (f"alias: a\ntasks:\n{TASK}{TASK}", 4, "tasks[1]"),
        (f"alias: a\nversion: 1\ntasks:\n{TASK}", 2, "version"),
        (f"alias: a\nconfig:\n  space: s\n  nmae: n\ntasks:\n{TASK}", 4, "config.nmae"),
        (f"alias: a\nconfig:\n  alert_config:\n    window: 3\ntasks:\n{TASK}", 4, "min_samples"),
        (f"alias: a\nconfig: x\ntasks:\n{TASK}", 2, "config"),
        ("alias: a\n", 1, "tasks"),
    ],
    ids=["operator", "id-twice", "unknown", "unknown-inside", "window", "no-object", "missing"],
)
def test_a_file_error_names_file_line_and_field(
    tmp_path: Path, text: str, line: int, field: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(FileFormatError) as raised:
        AgentEvalProfile.from_file(path)

    assert raised.value.line == line
    assert field in str(raised.value)
    assert "bad.yaml" in str(raised.value)


@pytest.mark.parametrize("name", shipped_profiles())
def test_each_ready_made_profile_loads_and_has_a_page(name: str) -> None:
    profile = AgentEvalProfile.from_file(name)

    assert profile.alias == name
    assert profile.description
    page = (shipped_folder() / f"{name}.md").read_text(encoding="utf-8")
    assert all(f"`{task.id}`" in page for task in profile.tasks)
    assert name in (shipped_folder() / "README.md").read_text(encoding="utf-8")


def test_an_unknown_ready_made_profile_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match="support_writer"):
        find_profile("suport_writer")


def test_a_name_cannot_lead_out_of_the_folder() -> None:
    with pytest.raises(ConfigError):
        find_profile("../pyproject")


def test_the_config_names_the_profile_it_belongs_to() -> None:
    """`profile.config.uid` is the identity, whatever somebody wrote there."""
    first = AgentEvalProfile(alias="a", tasks=[has_results()])
    claimed = AgentEvalProfile(
        alias="a", tasks=[has_results()], config=AgentEvalConfig(uid="something-else")
    )

    assert first.config.uid == first.uid
    assert claimed == first


def test_tasks_by_kind() -> None:
    profile = AgentEvalProfile(alias="a", tasks=three_kinds())

    assert [task.id for task in profile.assertion_tasks] == ["has_results"]
    assert [task.id for task in profile.trace_assertion_tasks] == ["spans"]
    assert [task.id for task in profile.agent_assertion_tasks] == ["called"]
    assert profile.llm_judge_tasks == []
    assert profile.has_assertions()
    assert profile.has_trace_assertions()
    assert profile.has_agent_assertions()
    assert not profile.has_llm_tasks()


def test_the_plan_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    AgentEvalProfile(alias="a", tasks=three_kinds()).print_execution_plan()

    assert "spans (TraceAssertion Equals, after has_results)" in capsys.readouterr().out


FOREIGN: dict[str, Any] = {
    "config": {
        "sample_ratio": 0.5,
        "space": "support",
        "name": "retriever",
        "version": "0.0.0",
        "uid": "0197b9a6-0000-7000-8000-000000000000",
        "alert_config": {
            "dispatch_config": {"Console": {"enabled": True}},
            "schedule": "0 0 0 * * *",
            "alert_condition": {
                "baseline_value": 0.8,
                "alert_threshold": "Below",
                "delta": 0.1,
            },
        },
        "drift_type": "Agent",
    },
    "tasks": {
        "assertion": [
            {
                "id": "has_results",
                "context_path": "results.count",
                "operator": "GreaterThanOrEqual",
                "expected_value": 1,
                "depends_on": [],
                "condition": False,
            }
        ],
        "judge": [],
        "trace": [
            {
                "id": "spans",
                "assertion": {"SpanCount": {"filter": {"ByName": {"name": "search"}}}},
                "operator": "Equals",
                "expected_value": 1,
                "depends_on": ["has_results"],
            }
        ],
        "agent": [],
    },
    "scouter_version": "0.25.0",
    "workflow": None,
    "task_ids": ["has_results", "spans"],
    "alias": "retriever",
}


def test_a_profile_of_the_original_is_read(tmp_path: Path) -> None:
    """Its bucketed file, with what follows from the tasks, and the same through a text."""
    path = tmp_path / "foreign.json"
    path.write_text(json.dumps(FOREIGN), encoding="utf-8")

    profile = AgentEvalProfile.from_file(path)

    assert [task.id for task in profile.tasks] == ["has_results", "spans"]
    assert (profile.alias, profile.name, profile.space) == ("retriever", "retriever", "support")
    assert profile.config.sample_ratio == 0.5
    assert profile.config.alert_config.alert_condition == AlertCondition(0.8, "Below", 0.1)
    assert AgentEvalProfile.model_validate_json(json.dumps(FOREIGN)) == profile
    assert AgentEvalProfile.model_validate_json(profile.model_dump_json()) == profile


@pytest.mark.parametrize("schedule", ["0 0 * * * *", CommonCrons.EveryHour])
def test_code_written_for_the_original_may_say_when_and_whom(schedule: str) -> None:
    condition = AlertCondition(0.8, "Below")
    config = AgentAlertConfig(schedule, SlackDispatchConfig("#c"), condition)

    assert (config.schedule, config.alert_condition) == ("0 0 * * * *", condition)
    assert config.dispatch_config == SlackDispatchConfig(channel="#c")
    assert AgentAlertConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("dispatch", "whom"),
    [
        ({"Slack": {"channel": "#c"}}, SlackDispatchConfig("#c")),
        ({"OpsGenie": {"team": "t", "priority": "P1"}}, OpsGenieDispatchConfig("t", "P1")),
    ],
)
def test_when_and_whom_the_original_notified_is_read(
    dispatch: dict[str, Any], whom: Dispatch
) -> None:
    alert = {"dispatch_config": dispatch, "schedule": "0 0 * * * *"}
    foreign = {**FOREIGN, "config": {"alert_config": alert}}

    profile = AgentEvalProfile.model_validate(foreign)

    assert profile.config.alert_config == AgentAlertConfig("0 0 * * * *", whom)
    assert profile.config.version == AgentEvalConfig().version


def test_a_foreign_field_in_our_own_form_is_refused() -> None:
    """Only a file that is the original's as a whole is read leniently."""
    with pytest.raises(ValidationError, match="drift_type"):
        AgentEvalProfile.model_validate(
            {"alias": "a", "tasks": [has_results()], "config": {"drift_type": "Agent"}}
        )


def test_a_config_is_a_file_of_its_own(tmp_path: Path) -> None:
    """Ours, and the original's with what ours has no place for."""
    path = tmp_path / "config.json"
    config = AgentEvalConfig(space="support", name="retriever", sample_ratio=0.5)
    path.write_text(config.model_dump_json(), encoding="utf-8")
    assert AgentEvalConfig.load_from_json_file(path) == config
    assert config.drift_type is DriftType.Agent

    path.write_text(json.dumps(FOREIGN["config"]), encoding="utf-8")
    found = AgentEvalConfig.load_from_json_file(path)
    assert type(found) is AgentEvalConfig
    assert found == AgentEvalProfile.model_validate(FOREIGN).config.model_copy(update={"uid": ""})

    path.write_text('{"nmae": "x"}', encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"config.json.*nmae"):
        AgentEvalConfig.load_from_json_file(path)


def test_the_plan_tells_its_stages() -> None:
    second = has_results().model_copy(update={"id": "second", "depends_on": ["has_results"]})
    profile = AgentEvalProfile([second, has_results()], alias="a")

    assert profile.get_execution_plan().stages == (("has_results",), ("second",))


@pytest.mark.parametrize(
    ("content", "is_scenarios"),
    [
        ({"collection_id": "c", "scenarios": [{"id": "a", "initial_query": "Hi?"}]}, True),
        ({"scenarios": []}, True),
        ([{"id": "a", "initial_query": "Hi?"}], True),
        ({"id": "a", "initial_query": "Hi?", "tasks": []}, True),
        ({"alias": "a", "tasks": []}, False),
        ([], False),
        ([1], False),
        ("text", False),
    ],
)
def test_a_file_of_scenarios_is_no_profile(
    tmp_path: Path, content: object, is_scenarios: bool
) -> None:
    file = tmp_path / "scenarios.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FileFormatError) as caught:
        AgentEvalProfile.from_file(file)
    start = f"{file}: this is a file of scenarios and no profile; expected a profile, which has its"
    assert str(caught.value).startswith(start) is is_scenarios, caught.value
