"""Scores from outside as results of a task: which pass, and which come too late."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.items.record_items import check_record
from collector.store.rows import RecordRow
from collector.worker.profiles import RegisteredProfile
from collector.worker.scores import about, result_of
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import DataError
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.score import is_score_uid
from tests.contracts.store_data import TRACE, span

LINES = (Path(__file__).parents[2] / "cases" / "scores.txt").read_text().splitlines()
CASES = [line.split("|") for line in LINES if line and not line.startswith("#")]
BEGAN = span(1).start_ns
"""Beginning of the trace."""


def registered(rule: Any, **fields: Any) -> RegisteredProfile:
    profile = AgentEvalProfile.model_validate({"alias": "desk", "scores": {"s": rule}, **fields})
    return RegisteredProfile(space="default", profile=profile, is_active=True, registered_ns=0)


def row(given_ns: int = BEGAN, **score: Any) -> RecordRow:
    return RecordRow(
        space="default", uid="score:" + "0" * 32, digest="", profile_ref="", created_ns=given_ns,
        received_ns=given_ns, trace_id=TRACE, context={"name": "s", "given_ns": given_ns, **score},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "value", "label", "error", "wanted"), CASES, ids=["|".join(case) for case in CASES]
)
def test_a_score_passes_by_rule_label_or_scale(
    rule: str, value: str, label: str, error: str, wanted: str
) -> None:
    said: dict[str, Any] = {"label": label.strip(), "error": error.strip()}
    if value.strip():
        said["value"] = float(value)

    found = result_of(row(**said), registered(yaml.safe_load(rule)), SpanTree())

    [task] = found.tasks
    outcome, _, reason = wanted.strip().partition(" ")
    assert (found.outcome, task.outcome, task.reason or "") == (outcome, outcome, reason)
    assert (task.task_id, task.spec.task_type) == ("s", "Score")


@pytest.mark.parametrize(
    ("source", "delay_s", "reason"),
    [
        ("", 30, None),
        ("", 31, "late"),
        ("human", 3_600, None),
        ("human", 3_601, "late"),
    ],
)
def test_a_score_that_comes_behind_the_wait_says_so(
    source: str, delay_s: int, reason: str | None
) -> None:
    """The time of the trace counts, whenever the collector reads it."""
    given = row(BEGAN + delay_s * 10**9, value=0.9, source=source)

    found = result_of(about(given, SpanTree([span(1)])), registered({}), SpanTree([span(1)]))

    [task] = found.tasks
    assert (task.outcome, task.reason, found.created_ns) == ("passed", reason, BEGAN)
    assert ("wait_s" in task.message) is (reason == "late")


def test_a_trace_that_the_profile_does_not_watch_is_left_out() -> None:
    profile = registered({}, watch={"match": {"service": "another"}})

    found = result_of(row(value=0.9), profile, SpanTree([span(1)]))

    assert (found.outcome, found.tasks[0].reason) == ("skipped", "not_applicable")


def test_the_uid_follows_from_what_is_said() -> None:
    """Times differ on the two ways of one event; a key of the sender's wins over the rest."""

    def uid(at: int = 1, id: str = "", **said: Any) -> str:
        score = {"name": "s", "value": 1, "at": at, "id": id, **said}
        found = check_record({"score": score, "trace_id": TRACE}).uid
        assert is_score_uid(found)
        return found

    assert uid(at=1) == uid(at=2) != uid(value=0)
    assert uid(by="anna") != uid(by="ben")
    assert uid(id="k") == uid(id="k", value=0) != uid(id="l")


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"score": {"value": 1}}, "score.name"),
        ({"score": {"name": "s", "value": "high"}}, "score.value"),
        ({"score": {"name": "s", "value": 1}, "uid": "score:" + "0" * 32}, "reserved for scores"),
    ],
)
def test_what_is_no_score_is_refused(item: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        check_record(item)
