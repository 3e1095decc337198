"""Required scenarios and tasks: one attempt that does not pass is a gate that is not met."""

import pytest

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gate_counts import required_of
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.outcome import Outcome
from tests.support.gate_runs import Tasks, replay

GOOD: Tasks = {"own": "P"}
REQUIRED = {"s": {"required": True}}


def only(run: ScenarioEvalResults) -> tuple[str, int, int, bool, str]:
    (check,) = check_gates(run, Gates())
    return check.name, check.passed, check.total, check.met, check.reason


def test_nothing_is_required_by_default() -> None:
    assert check_gates(replay({"s": [{"own": "F"}]}), Gates()) == ()


def test_a_scenario_that_passes_every_time() -> None:
    name = "required scenario 's'"
    run = replay({"s": [GOOD, GOOD]}, infos=REQUIRED)
    assert only(run) == (name, 2, 2, True, f"{name}: 2 of 2 attempts passed")


@pytest.mark.parametrize(
    ("letter", "word"), [("F", "failed"), ("E", "errored"), ("B", "skipped")]
)  # fmt: skip
def test_a_scenario_that_does_not_pass_once(letter: str, word: str) -> None:
    """Of attempts that cannot be decided, too: missing evidence is no good evidence."""
    run = replay({"s": [GOOD, {"own": letter}, GOOD]}, infos=REQUIRED)
    name, passed, total, met, reason = only(run)
    assert (passed, total, met) == (2, 3, False)
    assert reason == (
        f"{name}: 2 of 3 attempts passed; attempt 2 of 3: task 'own': {word}: said of own"
    )


def test_a_scenario_whose_record_fails() -> None:
    """The gate's own task is named, not the one that it blocked."""
    run = replay(
        {"s": [GOOD], "other": [GOOD]},
        {"desk": [("other", 0, {"polite": "F"}), ("s", 0, {"late": "G", "polite": "F"})]},
        infos=REQUIRED,
    )
    assert only(run)[-1] == (
        "required scenario 's': 0 of 1 attempts passed; "
        "alias 'desk', record 's-0', task 'polite': failed: said of polite"
    )


def test_a_scenario_whose_agent_raised() -> None:
    run = replay({"s": [GOOD]}, infos=REQUIRED)
    raised = run.scenario_results[0].model_copy(
        update={"outcome": Outcome.ERRORED, "passed": False, "error": "KeyError: 'k'",
                "error_frames": ("shop.py:12 in answer",)}
    )  # fmt: skip
    broken = run.model_copy(update={"scenario_results": (raised,)})
    assert only(broken)[-1].endswith("passed; KeyError: 'k' (shop.py:12 in answer)")


def test_a_scenario_that_nothing_judged() -> None:
    assert only(replay({"s": [{}]}, infos=REQUIRED))[-1].endswith("passed; nothing was judged")


@pytest.mark.parametrize(
    ("letter", "met", "total"),
    [("P", True, 2), ("F", False, 2), ("E", False, 2), ("G", False, 2), ("B", False, 2),
     ("S", True, 1)],
)  # fmt: skip
def test_a_task_of_a_profile(letter: str, met: bool, total: int) -> None:
    """The same task of an alias that does not require it does not count."""
    run = replay(
        {"s": [GOOD, GOOD]},
        {
            "desk": [("s", 0, {"safe": "P"}), ("s", 1, {"safe": letter})],
            "other": [("s", 0, {"safe": "F"})],
        },
        required={"desk": ("safe",)},
    )
    name, passed, found, is_met, reason = only(run)
    assert (name, found, is_met) == ("required task 'safe'", total, met)
    assert passed == total - (not met)
    if not met:
        word = {"F": "failed", "E": "errored"}.get(letter, "skipped")
        assert reason == (
            "required task 'safe': 1 of 2 results passed; scenario 's', attempt 2 of 2, "
            f"alias 'desk', record 's-1': {word}: said of safe"
        )


def test_a_scenarios_own_task() -> None:
    """Required in one scenario only; the other may fail it."""
    run = replay(
        {"s": [{"own": "P"}], "t": [{"own": "F"}]}, infos={"s": {"required_tasks": ["own"]}}
    )
    assert only(run) == (
        "required task 'own'", 1, 1, True, "required task 'own': 1 of 1 results passed",
    )  # fmt: skip


def test_a_task_without_any_result_is_not_met() -> None:
    run = replay({"s": [GOOD]}, required={"desk": ("safe",)})
    assert only(run) == ("required task 'safe'", 0, 0, False, "required task 'safe': no results")


def test_many_misses_are_counted() -> None:
    run = replay({"s": [{"own": "F"}] * 5}, infos=REQUIRED)
    reason = only(run)[-1]
    assert reason.count("said of own") == 1
    assert reason.endswith("; and 4 more")
    (found,) = required_of(run)
    assert len(found.misses) == 5


def test_a_long_message_is_cut() -> None:
    run = replay({"s": [GOOD]}, infos=REQUIRED)
    long = run.scenario_results[0].model_copy(
        update={"outcome": Outcome.ERRORED, "passed": False, "error": "no " * 1000}
    )
    reason = only(run.model_copy(update={"scenario_results": (long,)}))[-1]
    assert "characters left out" in reason
    assert len(reason) < 500
