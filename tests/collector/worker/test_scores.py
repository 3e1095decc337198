"""Scores from outside as results of a task: which pass, and which come too late."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.items.record_items import check_record
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import RecordRow
from collector.worker.profiles import RegisteredProfile
from collector.worker.scores import about, result_of
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import DataError
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.score import ScoreTask
from scouter.model.log_event import RESULT_EVENT
from scouter.model.score import is_score_uid
from scouter.model.span import Span
from tests.collector.conftest import Start
from tests.contracts.store_data import SPACE, TRACE, span
from tests.support.otlp import logs_request

LINES = (Path(__file__).parents[2] / "cases" / "scores.txt").read_text().splitlines()
CASES = [line.split("|") for line in LINES if line and not line.startswith("#")]
DAY_NS = 86_400 * 10**9
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
        ("", 300, None),
        ("", 301, "late"),
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


def test_a_score_of_a_clock_that_is_ahead_is_not_late(start: Start, tmp_path: Path) -> None:
    """Nor is one without a clock of 1970: both were given when they came."""
    profile = AgentEvalProfile.model_validate({"alias": "desk", "scores": {"s": {"wait_s": 3_600}}})
    service = start(profile=[str(profile.save_to_json(tmp_path / "desk.json"))])
    before = time.time_ns()
    for at_ns in (0, before + DAY_NS):
        attributes: dict[str, object] = {
            "gen_ai.evaluation.name": "s", "gen_ai.evaluation.score.value": 0.9,
        }  # fmt: skip
        request = logs_request([""], event_name=RESULT_EVENT, attributes=attributes, time_ns=at_ns)
        headers = {"Content-Type": "application/x-protobuf"}
        content = request.SerializeToString()
        assert service.http.post("/v1/logs", content=content, headers=headers).is_success

    service.wait_for(2)
    rows = service.collector.store.outcomes(EvaluationQuery(space=SPACE))
    assert all(before <= each.created_ns <= time.time_ns() for each in rows)
    assert [each.tasks[0].reason for each in rows] == [None, None]


@pytest.mark.parametrize("names", [("mmm", "aaa"), ("aaa", "mmm")])
def test_a_score_that_is_sent_again_counts_once_for_each_profile(
    start: Start, names: tuple[str, str]
) -> None:
    """Whichever profile names it since, before or behind the first one in any order."""
    service = start()
    registry = service.collector.registry
    item = {"score": {"name": "s", "value": 1, "at": 1}, "record_id": "r"}
    profiles = [
        registry.register(SPACE, AgentEvalProfile([ScoreTask("s")], alias=name), activate=True)
        for name in names[:1]
    ]
    service.send(item)
    service.wait_for(1)
    profiles += [
        registry.register(SPACE, AgentEvalProfile([ScoreTask("s")], alias=name), activate=True)
        for name in names[1:]
    ]
    for _ in range(2):
        service.send(item)
    service.wait_for(2)
    registry.set_active(SPACE, profiles[0].uid, is_active=False)
    service.send(item)

    found = [each["profile"] for each in service.get("/api/v1/evaluations")["items"]]
    assert sorted(found) == ["aaa", "mmm"]


@pytest.mark.parametrize("spans", [[span(1)], []], ids=["of another service", "none came"])
def test_a_trace_that_the_profile_does_not_watch_is_left_out(spans: list[Span]) -> None:
    profile = registered({}, watch={"match": {"service": "another"}})

    found = result_of(row(value=0.9), profile, SpanTree(spans))

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
