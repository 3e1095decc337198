"""The checks of a trace that did not pass."""

import pytest

from collector.web.checks import Judged, read_checks
from scouter.client.models.alerts import DriftAlert
from scouter.client.models.evaluations import Evaluation
from tests.support.answers import answer

SPAN = "1" * 16


def evaluation(uid: str, *outcomes: str, version: str = "2") -> Evaluation:
    tasks = [
        {"task_id": f"t{number}", "outcome": outcome, "span_ids": [SPAN] if not number else []}
        for number, outcome in enumerate(outcomes)
    ]
    return answer(
        Evaluation, uid=uid, profile="desk", service_version=version, environment="", tasks=tasks
    )


def listed(groups: list[Judged]) -> list[tuple[str, list[str]]]:
    return [(each.evaluation.uid, [check.task.task_id for check in each.checks]) for each in groups]


def test_checks_stand_with_their_record() -> None:
    found = read_checks(
        [evaluation("a", "failed", "passed", "errored"), evaluation("b", "passed", "skipped")],
        {SPAN: "chat"}, [],
    )  # fmt: skip
    assert (found.count, found.of) == (2, 5)
    assert listed(found.first) == [("a", ["t0", "t2"])]
    assert [each.uid for each in found.others] == ["b"]
    first, second = found.first[0].checks
    assert (first.span_id, first.span_name) == (SPAN, "chat")
    assert (second.span_id, second.span_name) == ("", "")


@pytest.mark.parametrize(
    ("counts", "first", "rest"),
    [
        ([8], {"a": 8}, {}),
        ([9], {"a": 6}, {"a": 3}),
        ([4, 300], {"a": 4, "b": 2}, {"b": 194}),
    ],
)
def test_many_checks_are_folded(
    counts: list[int], first: dict[str, int], rest: dict[str, int]
) -> None:
    """Not one or two; 200 are shown at most."""
    given = [evaluation(uid, *["failed"] * n) for uid, n in zip("ab", counts, strict=False)]
    found = read_checks(given, {}, [])
    assert {uid: len(tasks) for uid, tasks in listed(found.first)} == first
    assert {uid: len(tasks) for uid, tasks in listed(found.rest)} == rest
    assert found.left_out == max(0, sum(counts) - 200)


def test_an_open_alert_of_the_profile_stands_with_it() -> None:
    def alert(name: str, profile: str, version: str, state: str) -> DriftAlert:
        return answer(
            DriftAlert, alert_id=name, profile=profile, version=version, state=state, environment=""
        )

    alerts = [
        alert("mine", "desk", "2", "firing"),
        alert("any", "desk", "", "silenced"),
        alert("over", "desk", "2", "resolved"),
        alert("older", "desk", "1", "firing"),
        alert("other", "shop", "2", "firing"),
    ]
    (group,) = read_checks([evaluation("a", "failed")], {}, alerts).first
    assert [each.alert_id for each in group.alerts] == ["mine", "any"]
