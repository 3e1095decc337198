"""`scores` of a profile: short forms of Score tasks."""

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.tasks.score import ScoreTask
from scouter.model.record import EvalRecord

ANSWERED = {
    "task_type": "Assertion", "id": "answered", "context_path": "answer",
    "operator": "IsNotEmpty", "expected_value": True,
}  # fmt: skip


def profile(**fields: object) -> AgentEvalProfile:
    return AgentEvalProfile.model_validate({"alias": "desk", **fields})


def test_scores_become_tasks_and_healthy_levels() -> None:
    """What is saved is read as the same profile, so that a start registers nothing anew."""
    found = profile(
        scores={"Helpfulness": {"healthy": 0.8}, "toxic": {"at_most": 0.2, "wait_s": 5}},
        tasks=[ANSWERED],
    )

    assert [task.id for task in found.tasks] == ["answered", "helpfulness", "toxic"]
    assert found.tasks[1:] == (
        ScoreTask("helpfulness"),
        ScoreTask("toxic", operator="LessThanOrEqual", expected_value=0.2, wait_s=5),
    )
    assert found.config.healthy is not None
    assert found.config.healthy.rates == {"helpfulness": 0.8}
    assert AgentEvalProfile.model_validate_json(found.model_dump_json()) == found


def test_a_level_is_no_part_of_the_digest_and_a_rule_is() -> None:
    plain = profile(scores={"s": {}})

    assert profile(scores={"s": {"healthy": 0.9}}).digest == plain.digest
    assert profile(scores={"s": {"at_least": 0.9}}).digest != plain.digest


def test_nothing_is_evaluated_for_a_score() -> None:
    """Offline no score comes in, so the task has no result, and no record passes for it."""
    found = profile(scores={"s": {}}, tasks=[ANSWERED])
    results = EvalDataset([EvalRecord({"answer": "yes"})], found.tasks).evaluate()

    assert [task.task_id for task in results.records[0].tasks] == ["answered"]
    assert profile(scores={"s": {}}).plan.tasks == ()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"at_least": 0.5, "passed": ["good"]}, "at_least and passed: expected one of them"),
        ({"healthy": 1.5}, "healthy"),
        ({"scale": [5, 1]}, r"scores\.s\n.*scale: expected"),
        ({"scale": [0, float("inf")]}, r"scores\.s\.scale\.1"),
        ({"at_least": float("nan")}, r"scores\.s\.at_least"),
        ({"passed": []}, r"scores\.s\.passed"),
        ({"wait_s": -1}, r"scores\.s\.wait_s"),
        ({"above": 0.5}, r"scores\.s\.above"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(rule: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        profile(scores={"s": rule})


def test_a_score_of_the_name_of_a_task_is_refused() -> None:
    with pytest.raises(ValueError, match="'answered' is taken"):
        profile(scores={"answered": {}}, tasks=[ANSWERED])


def test_the_scope_of_scores_is_theirs_alone() -> None:
    with pytest.raises(ValueError, match="scope score"):
        profile(tasks=[{**ANSWERED, "scope": "score"}])
