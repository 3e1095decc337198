"""A judge task's pass rate in the API, beside what is known of its judge."""

import contextlib
import csv
import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest

from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.labels import Label
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from tests.collector.conftest import Service, Start
from tests.collector.judging.test_service import entries, wait_decided
from tests.support.calibrations import NINE_OF_TEN, Counts, calibration
from tests.support.otlp_logs_server import LogsServer, OtlpGrpcLogsServer, OtlpLogsServer
from tests.support.processes import wait_until


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")


def profile(model: str = "model-1") -> AgentEvalProfile:
    prompt = Prompt("Rate ${answer}.", model, "house", output_type=Score)
    return AgentEvalProfile(
        [
            AssertionTask("number", "answer", True, "IsNumeric"),
            LLMJudgeTask("tone", prompt, 3, "score", "GreaterThanOrEqual"),
        ],
        alias="judged",
    )


DESK = profile()


def rate(request: LLMRequest) -> dict[str, Any]:
    """Passes even numbers."""
    (number,) = re.findall(r">(\d+)</data", request.text)
    return {"score": 5 if int(number) % 2 == 0 else 1, "reason": "so"}


def begin(
    start: Start, tmp_path: Path, server: LLMTestServer, *known: Calibration, **flags: Any
) -> Service:
    folder = tmp_path / "known"
    folder.mkdir(exist_ok=True)
    for at, each in enumerate(known):
        each.save(folder / f"{at}.json")
    file = DESK.save_to_json(tmp_path / "judged.json")
    given = {"providers": entries(server), "calibrations": str(folder), **flags}
    return start(profile=[str(file)], drain_s="1s", **given)


def judge(service: Service, path: str = "tasks", **query: Any) -> dict[str, Any]:
    """The judge's part of the one task that has a judge."""
    found = service.get(f"/api/v1/{path}", **query)["items"]
    assert [each["judge"] for each in found if each["task_id"] == "number"] == [None]
    (item,) = [each for each in found if each["task_id"] == "tone"]
    return item["judge"]


def send(
    service: Service, passed: int, failed: int, name: str = "u", before: int = 0, **tags: str
) -> None:
    """Send records with uids and ids after their numbers, and wait for their evaluations."""
    numbers = [2 * n for n in range(passed)] + [2 * n + 1 for n in range(failed)]
    service.send(
        *(
            {
                "uid": f"{name}{n}",
                "record_id": f"case {n}",
                "profile": "judged",
                "context": {"answer": n},
                "tags": tags,
            }
            for n in numbers
        )
    )
    service.wait_for(before + passed + failed)
    wait_decided(service)


def test_the_corrected_rate(start: Start, tmp_path: Path) -> None:
    """By hand: (0.5 + 0.8 - 1) / (0.9 + 0.8 - 1) = 3/7; in tasks and in their series."""
    with LLMTestServer(rate) as server:
        service = begin(start, tmp_path, server, calibration(DESK))
        send(service, 20, 20)
        for path in ("tasks", "tasks/series"):
            found = judge(service, path)
            assert found["standing"] == "corrected"
            assert found["pass_rate"] == pytest.approx(3 / 7, abs=1e-6)
            assert found["lower"] < 3 / 7 < found["upper"]
            assert (found["judged"], found["is_by_record"]) == (40, True)
            known = found["calibration"]
            assert (known["sensitivity"], known["specificity"]) == (0.9, 0.8)
            assert (known["good"], known["bad"]) == (200, 200)


def test_tasks_to_label_have_the_latest_calibration(start: Start, tmp_path: Path) -> None:
    """Of 0.85 agreement and 0.5 by chance kappa is 0.7; of another judge's nothing is shown."""
    early = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    late = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
    known = [
        calibration(DESK),
        calibration(DESK, ((4, 1), (2, 2)), at=early),
        calibration(profile("model-0"), ((9, 1), (1, 9)), at=late),
    ]
    with LLMTestServer(rate) as server:
        service = begin(start, tmp_path, server, *known)
        check, judge = service.get("/api/v1/labels/tasks")["items"]
    assert (check["task_id"], check["is_judge"], check["calibration"]) == ("number", False, None)
    assert (judge["task_id"], judge["is_judge"]) == ("tone", True)
    assert judge["calibration"]["kappa"] == pytest.approx(0.7)
    assert (judge["records"], judge["raters"]) == (0, 0)


@pytest.mark.parametrize(
    ("model", "counts", "standing", "why"),
    [
        ("model-0", NINE_OF_TEN, "another_judge", 'model is "model-1", calibrated was "model-0"'),
        ("model-1", ((4, 1), (2, 2)), "cannot_say", "too few labels"),
        (None, NINE_OF_TEN, "not_calibrated", "no calibration of this task is known"),
    ],
)
def test_no_corrected_rate(
    model: str | None, counts: Counts, standing: str, why: str, start: Start, tmp_path: Path
) -> None:
    known = [] if model is None else [calibration(profile(model), counts)]
    with LLMTestServer(rate) as server:
        service = begin(start, tmp_path, server, *known)
        send(service, 4, 2)
        found = judge(service)

    assert (found["standing"], found["pass_rate"], found["lower"]) == (standing, None, None)
    assert why in found["why"]
    assert (found["calibration"] is None) is (standing != "cannot_say")


def test_labels_of_unknown_origin_correct_nothing(start: Start, tmp_path: Path) -> None:
    """Of 400 labels, which would be enough, none says how its record was chosen."""
    known = calibration(DESK, label=Label(uid="u", label=True))
    with LLMTestServer(rate) as server:
        service = begin(start, tmp_path, server, known)
        send(service, 20, 20)
        found = judge(service)

    assert (found["standing"], found["pass_rate"], found["judged"]) == ("cannot_say", None, 40)
    assert "400 without `order`" in found["why"]
    assert "scouter judge sample" in found["why"]


def test_each_calibration_tells_of_the_evaluations_of_its_time(
    start: Start, tmp_path: Path
) -> None:
    """By hand: 3/7 of the first 40, and (15/20 + 0.95 - 1) / 0.9 = 7/9 of the last 20."""
    now = datetime.datetime.now(datetime.UTC)
    first = calibration(DESK, at=now)
    with LLMTestServer(rate) as server:
        service = begin(start, tmp_path, server, first)
        send(service, 20, 20)
        service.stop()
        change = datetime.datetime.now(datetime.UTC)
        later = calibration(DESK, ((190, 10), (10, 190)), at=change)
        service = begin(start, tmp_path, server, first, later)
        send(service, 15, 5, "v", before=40)
        parts = [judge(service, until=change.isoformat()), judge(service, since=change.isoformat())]
        both, bucket = judge(service), judge(service, "tasks/series", bucket="7d")

    assert [each["calibrations"] for each in (*parts, both)] == [1, 1, 2]
    assert [each["pass_rate"] for each in parts] == pytest.approx([3 / 7, 7 / 9], abs=1e-6)
    assert both["standing"] == "corrected"
    assert (both["judged"], both["why"]) == (60, "")
    for name in ("pass_rate", "lower", "upper"):
        mean = (40 * parts[0][name] + 20 * parts[1][name]) / 60
        assert both[name] == pytest.approx(mean, abs=1e-9)
    assert both["calibration"]["sensitivity"] == 0.95
    assert bucket == both


def test_each_calibration_tells_of_the_environment_that_is_asked_for(
    start: Start, tmp_path: Path
) -> None:
    """20 of staging, all since the later calibration: (15/20 + 0.95 - 1) / 0.9 = 7/9."""
    first = calibration(DESK, at=datetime.datetime.now(datetime.UTC))
    with LLMTestServer(rate) as server:
        service = begin(start, tmp_path, server, first)
        send(service, 2, 2)
        service.stop()
        change = datetime.datetime.now(datetime.UTC)
        later = calibration(DESK, ((190, 10), (10, 190)), at=change)
        service = begin(start, tmp_path, server, first, later)
        tags = {"deployment.environment.name": "staging"}
        send(service, 15, 5, "v", before=4, **tags)
        found = judge(service, environment="staging")

    assert found["judged"] == 20
    assert found["pass_rate"] == pytest.approx(7 / 9, abs=1e-6)


def test_old_evaluations_keep_their_calibration(start: Start, tmp_path: Path) -> None:
    """A later one of the same judge is for later evaluations, also once its file is gone."""
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    first = calibration(DESK, at=now - 9 * day)
    with LLMTestServer(rate) as server:
        service = begin(start, tmp_path, server, first)
        send(service, 20, 20)
        service.stop()
        (tmp_path / "known" / "0.json").unlink()
        later = calibration(DESK, ((190, 10), (10, 190)), at=now + day)
        service = begin(start, tmp_path, server, later)

        old = judge(service, until=(now + day).isoformat())
        both = judge(service)
        series = judge(service, "tasks/series")

    assert old["standing"] == "corrected"
    assert old["calibration"]["sensitivity"] == 0.9
    assert series["calibration"] == old["calibration"], "the bucket ends before the later one"
    assert both == old, "no evaluation is of the later one's time"


# --- with each result -----------------------------------------------------------------------


def of_results(service: Service) -> dict[str, Any]:
    """The outcome of the judge's task of each record, by uid; the other task has none."""
    found: dict[str, Any] = {}
    for each in service.get("/api/v1/evaluations", limit=1000)["items"]:
        number, tone = each["tasks"]
        assert number["calibration"] is None
        found[each["uid"]] = tone["calibration"]
    return found


def test_a_calibration_comes_with_each_result(start: Start, tmp_path: Path) -> None:
    """Each has that of its time, wherever the API shows a result, and however it is exported."""
    first = calibration(DESK, at=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
    with LLMTestServer(rate) as server:
        service = begin(start, tmp_path, server, first)
        send(service, 1, 1)
        service.stop()
        later = calibration(DESK, ((190, 10), (10, 190)), at=datetime.datetime.now(datetime.UTC))
        service = begin(start, tmp_path, server, first, later)
        send(service, 1, 1, "v", before=2)

    found = of_results(service)
    assert {uid: known["sensitivity"] for uid, known in found.items()} == {
        "u0": 0.9, "u1": 0.9, "v0": 0.95, "v1": 0.95,
    }  # fmt: skip
    assert found["u0"]["created_at"] == "2026-01-01T00:00:00+00:00"
    assert (found["u0"]["good"], found["u0"]["bad"]) == (200, 200)
    decided, undecided = service.get("/api/v1/records/u0")["evaluations"]
    assert decided["tasks"][1]["calibration"] == found["u0"]
    assert undecided["tasks"][1]["calibration"] is None
    alone = service.get(f"/api/v1/evaluations/{decided['evaluation_id']}")
    assert alone["tasks"][1]["calibration"] == found["u0"]

    path = "/api/v1/export/task_results"
    lines = [json.loads(line) for line in service.http.get(path).text.splitlines()]
    table = service.http.get(path, params={"format": "csv"}).text.splitlines()
    rows: list[dict[str, Any]] = list(csv.DictReader(table))
    for row in rows:
        row["calibration"] = json.loads(row["calibration"] or "null")
    for exported in (lines, rows):
        by_task = {(row["uid"], row["task_id"]): row["calibration"] for row in exported}
        assert by_task == {(uid, "tone"): known for uid, known in found.items()} | {
            (uid, "number"): None for uid in found
        }


@pytest.mark.parametrize(
    ("model", "outcome"),
    [("model-0", "passed"), (None, "passed"), ("model-1", "errored")],
    ids=["another-judge", "none", "errored"],
)
def test_no_calibration_comes_with_what_it_says_nothing_of(
    model: str | None, outcome: str, start: Start, tmp_path: Path
) -> None:
    """It is of another judge, there is none, or the judge gave no evaluation."""
    known = [] if model is None else [calibration(profile(model))]

    def answer(request: LLMRequest) -> dict[str, Any]:
        return rate(request) if outcome == "passed" else {"evaluation": "?"}

    with LLMTestServer(answer) as server:
        service = begin(start, tmp_path, server, *known)
        send(service, 1, 0)
    (each,) = service.get("/api/v1/evaluations")["items"]
    assert [task["outcome"] for task in each["tasks"]] == ["passed", outcome]
    assert of_results(service) == {"u0": None}


@pytest.mark.parametrize("far_side", [OtlpLogsServer, OtlpGrpcLogsServer], ids=["http", "grpc"])
def test_a_calibration_is_sent_on_with_each_result(
    far_side: type[LogsServer], start: Start, tmp_path: Path
) -> None:
    """By hand: kappa is (0.85 - 0.5) / (1 - 0.5), as 340 of 400 agree and people pass half."""
    endpoint = far_side()
    with LLMTestServer(rate) as server, contextlib.ExitStack() as stack:
        stack.callback(endpoint.stop)
        service = begin(start, tmp_path, server, calibration(DESK), results_otlp=endpoint.url)
        send(service, 1, 1)
        # The first task of each record, then both, as the judge has answered.
        wait_until(lambda: len(endpoint.events) == 6, what="six events")
    name = "scouter.judge.calibration."
    for event in endpoint.events:
        said = event.attributes.items()
        sent = {key.removeprefix(name): value for key, value in said if key.startswith(name)}
        if event.attributes["gen_ai.evaluation.name"] == "number":
            assert sent == {}
        else:
            assert len(sent.pop("digest")) == 64
            assert sent.pop("kappa") == pytest.approx(0.7)
            assert sent == {
                "created_at": "2026-01-01T00:00:00+00:00",
                "sensitivity": 0.9,
                "specificity": 0.8,
                "labels": 400,
            }
