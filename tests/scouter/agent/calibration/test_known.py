"""Calibrations and their judges: a calibration of another judge is never given."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.identity import identify
from scouter.agent.calibration.known import Calibrations, Unfit
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from tests.support.calibrations import calibration

TASK: dict[str, Any] = {
    "task_type": "LLMJudge",
    "id": "helpful",
    "prompt": {
        "model": "small-1",
        "provider": "openai",
        "messages": "Is it? ${answer}",
        "settings": {"temperature": 0},
    },
    "context_path": "score",
    "operator": "GreaterThanOrEqual",
    "expected_value": 4,
}
OTHER = {"task_type": "Assertion", "id": "says", "context_path": "answer", "operator": "IsString",
         "expected_value": True}  # fmt: skip


def profile(prompt: dict[str, Any] | None = None, *more: Any, **fields: Any) -> AgentEvalProfile:
    task = {**TASK, **fields, "prompt": {**TASK["prompt"], **(prompt or {})}}
    return AgentEvalProfile.model_validate({"alias": "desk", "tasks": [task, *more]})


DESK = profile()


def look_up(judged_by: AgentEvalProfile, *known: Calibration, judge: str = "") -> object:
    return Calibrations(known).of(identify(judged_by, judged_by.llm_judge_tasks[0], judge))


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(profile(), id="itself"),
        pytest.param(profile(None, OTHER), id="another task beside it"),
        pytest.param(profile(sample_rate=0.1), id="fewer are asked"),
        pytest.param(profile(max_retries=7), id="asked again after a fault"),
        pytest.param(profile(description="For people."), id="description"),
    ],
)
def test_the_same_judge(same: AgentEvalProfile) -> None:
    known = calibration(DESK)

    assert look_up(same, known) is known


@pytest.mark.parametrize(
    ("other", "said"),
    [
        pytest.param(profile({"model": "small-2"}), 'model is "small-2"', id="model"),
        pytest.param(profile({"provider": "house"}), 'provider is "house"', id="entry"),
        pytest.param(profile({"settings": {"temperature": 1}}), "'temperature' is 1", id="setting"),
        pytest.param(profile({"messages": "So? ${answer}"}), "the prompt differs", id="words"),
        pytest.param(profile({"system_instructions": "Be."}), "the prompt differs", id="system"),
        pytest.param(profile({"fence": False}), "'prompt.fence' is false", id="fence"),
        pytest.param(
            profile({"max_value_characters": 500}), "'prompt.max_value_characters' is 500", id="cut"
        ),
        pytest.param(profile({"output_type": "Score"}), "the form of the answer", id="form"),
        pytest.param(profile(expected_value=5), "'expected_value' is 5", id="expected"),
        pytest.param(profile(operator="GreaterThan"), "'operator' is", id="operator"),
        pytest.param(profile(samples=3), "'samples' is 3", id="samples"),
        pytest.param(
            profile(None, OTHER, depends_on=["says"]), "a task that it depends on", id="before"
        ),
    ],
)  # fmt: skip
def test_another_judge_is_told_and_not_given(other: AgentEvalProfile, said: str) -> None:
    found = look_up(other, calibration(DESK))

    assert isinstance(found, Unfit)
    assert said in found.why


def test_a_judge_of_ones_own_is_not_the_provider_entry() -> None:
    own, entry, unknown = (calibration(DESK, judge=name) for name in ("desk:judge", "", None))

    assert look_up(DESK, own, judge="desk:judge") is own
    assert look_up(DESK, entry) is entry
    assert look_up(DESK, unknown, judge="desk:judge") is unknown, "nobody knows who was asked"
    found = look_up(DESK, own)
    assert isinstance(found, Unfit)
    assert found.why.startswith("the provider entry is asked, calibrated was desk:judge")
    found = look_up(DESK, entry, judge="desk:judge")
    assert isinstance(found, Unfit)
    assert found.why.startswith("desk:judge is asked, calibrated was the provider entry")


def test_a_task_of_another_name_is_no_near_miss() -> None:
    assert look_up(profile(id="other"), calibration(DESK)) == Unfit(())


def test_the_nearest_of_several_is_told() -> None:
    far = calibration(profile({"model": "m", "settings": {"temperature": 1}, "messages": "?"}))
    near = calibration(profile({"model": "small-0"}))

    found = look_up(DESK, near, far)

    assert isinstance(found, Unfit)
    assert found.differences == ('model is "small-1", calibrated was "small-0"',)


def test_a_verdict_keeps_the_calibration_that_it_was_made_under() -> None:
    """The last one made until then; before the first one, the first."""
    days = [datetime.datetime(2026, 3, day, tzinfo=datetime.UTC) for day in (10, 20)]
    first, second = (calibration(DESK, at=day) for day in days)
    known = Calibrations([second, first])
    identity = identify(DESK, DESK.llm_judge_tasks[0])

    given = [known.at(identity, datetime.datetime(2026, 3, day, tzinfo=datetime.UTC))
             for day in (1, 10, 19, 20, 30)]  # fmt: skip

    assert given == [first, first, first, second, second]
    assert known.of(identity) is second
    assert isinstance(Calibrations().at(identity, days[0]), Unfit)


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    calibration(DESK).save(tmp_path / "one.json")
    calibration(DESK).save(tmp_path / "all" / "two.json")
    (tmp_path / "all" / "notes.txt").write_text("no calibration")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.json").write_text('{"created_at": 1}')

    assert len(Calibrations.read([tmp_path / "one.json", tmp_path / "all"])) == 2
    with pytest.raises(ConfigError, match="no calibration"):
        Calibrations.read([tmp_path / "empty"])
    with pytest.raises(ConfigError, match=r"bad\.json"):
        Calibrations.read([tmp_path / "bad.json"])
    with pytest.raises(ConfigError, match="gone"):
        Calibrations.read([tmp_path / "gone"])
