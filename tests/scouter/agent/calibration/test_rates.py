"""Pass rates beside calibrations, and which calibration is of which judge."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from scouter.agent.calibration.asking import JudgeOutcome
from scouter.agent.calibration.calibration import Calibration, Evidence, calibrate
from scouter.agent.calibration.identity import identify
from scouter.agent.calibration.labels import Item, Label
from scouter.agent.calibration.rates import Calibrations, RecordOutcome, Unfit, rate
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.outcome import Outcome
from tests.support.calibrations import Counts, calibration

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
        pytest.param(profile(sample_rate=0.1), id="fewer are judged"),
        pytest.param(profile(max_retries=7), id="called again after a fault"),
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
def test_another_judge_is_reported_and_not_given(other: AgentEvalProfile, said: str) -> None:
    found = look_up(other, calibration(DESK))

    assert isinstance(found, Unfit)
    assert said in found.why


def test_a_judge_of_ones_own_is_not_the_provider_entry() -> None:
    own, entry, unknown = (calibration(DESK, judge=name) for name in ("desk:judge", "", None))

    assert look_up(DESK, own, judge="desk:judge") is own
    assert look_up(DESK, entry) is entry
    assert look_up(DESK, unknown, judge="desk:judge") is unknown, "nobody knows who was called"
    found = look_up(DESK, own)
    assert isinstance(found, Unfit)
    assert found.why.startswith("the provider entry is called, calibrated was desk:judge")
    found = look_up(DESK, entry, judge="desk:judge")
    assert isinstance(found, Unfit)
    assert found.why.startswith("desk:judge is called, calibrated was the provider entry")


def test_a_task_of_another_name_is_no_near_miss() -> None:
    assert look_up(profile(id="other"), calibration(DESK)) == Unfit(())


def test_the_nearest_of_several_is_reported() -> None:
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


IDENTITY = identify(DESK, DESK.llm_judge_tasks[0], "")


def outcomes(passed: int, failed: int, errored: int = 0) -> list[RecordOutcome]:
    counts = ((Outcome.PASSED, passed), (Outcome.FAILED, failed), (Outcome.ERRORED, errored))
    return [
        RecordOutcome(outcome, f"{outcome}{n}") for outcome, count in counts for n in range(count)
    ]


def test_the_corrected_rate() -> None:
    """Rogan and Gladen by hand: (0.76 + 0.8 - 1) / (0.9 + 0.8 - 1) = 0.8."""
    found = rate(IDENTITY, outcomes(380, 120, 7), calibration(DESK))

    assert (found.passed, found.judged) == (380, 500)
    assert found.standing == "corrected"
    assert found.rate == pytest.approx(0.8, abs=1e-6)
    assert found.interval is not None
    assert found.interval[0] < 0.76 < 0.8 < found.interval[1]
    assert found.interval[1] - found.interval[0] > found.judge_interval[1] - found.judge_interval[0]
    assert found.calibration is not None
    assert (found.calibration.sensitivity, found.calibration.specificity) == (0.9, 0.8)
    assert (found.calibration.good, found.calibration.bad, found.calibration.labels) == (
        200, 200, 400,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("passed", "failed", "rate_of"),
    [
        pytest.param(60, 40, 0.6 * 0.9 + 0.4 * 0.2, id="the traffic of the labels"),
        pytest.param(60, 41, 6 / 10.1 * 0.9 + 4.1 / 10.1 * 0.2, id="one record more"),
    ],
)
def test_drawn_from_these_records(passed: int, failed: int, rate_of: float) -> None:
    """Of 20 passed ones 18 are good, of 20 failed ones 4.

    Of other records the judge's shares hold: it passes 0.54 / 0.62 of the good ones and 0.06 / 0.38
    of the bad ones.
    """
    label = Label(uid="x", label=True, order="outcome", stratum="passed", size=60)
    other = label.model_copy(update={"stratum": "failed", "size": 40})
    drawn = [(label, "passed", n, n < 18) for n in range(20)]
    drawn += [(other, "failed", n, n < 4) for n in range(20)]
    known = of_items(
        [
            Item(
                key=f"{name}{n}", uid=f"{name}{n}", record_id="", context=None, votes=[good],
                blind_votes=[good], drawn=each,
            )
            for each, name, n, good in drawn
        ],
        [name == "passed" for _, name, _, _ in drawn],
    )  # fmt: skip

    found = rate(IDENTITY, outcomes(passed, failed), known)

    assert found.rate is not None
    if failed == 40:
        assert found.rate == pytest.approx(rate_of)
    else:
        sensitivity, false_passes = 0.54 / 0.62, 0.06 / 0.38
        assert found.rate == pytest.approx((60 / 101 - false_passes) / (sensitivity - false_passes))
    assert known.sensitivity.value == pytest.approx(0.54 / 0.62)
    assert known.specificity.value == pytest.approx(0.32 / 0.38)


def of_items(items: list[Item], passed: list[bool]) -> Calibration:
    evidence = Evidence(
        items=items, outcomes=[[JudgeOutcome(passed=each)] for each in passed], labels=len(items)
    )
    return calibrate(IDENTITY, evidence, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        pytest.param(((5, 1), (2, 2)), "too few labels", id="few"),
        pytest.param(((50, 2), (0, 0)), "none of the 52 labelled items is bad", id="one kind"),
        pytest.param(((5, 50), (50, 5)), "passes bad items as often", id="upside down"),
    ],
)
def test_what_cannot_be_said(counts: Counts, why: str) -> None:
    found = rate(IDENTITY, outcomes(80, 20), calibration(DESK, counts))

    assert (found.standing, found.rate, found.interval) == ("cannot_say", None, None)
    assert why in found.why
    assert found.calibration is not None


def test_without_a_calibration_of_this_judge() -> None:
    """Nothing of another judge's calibration gets into the answer but in what it differs."""
    other = Calibrations([calibration(profile({"model": "small-0"}))]).of(IDENTITY)
    none = Calibrations().of(IDENTITY)

    found = rate(IDENTITY, outcomes(80, 20), other)
    assert (found.standing, found.rate, found.calibration) == ("another_judge", None, None)
    assert found.why == 'model is "small-1", calibrated was "small-0"; calibrate this judge'
    assert rate(IDENTITY, outcomes(80, 20), none).standing == "not_calibrated"


def test_nothing_was_judged() -> None:
    found = rate(IDENTITY, outcomes(0, 0, 3), calibration(DESK))

    assert (found.judge_rate, found.standing) == (None, "cannot_say")
