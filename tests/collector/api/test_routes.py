"""The API as people and programs ask it."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.api.parameters import read_cursor, write_cursor
from collector.problem import ProblemError
from tests.collector.conftest import Service, Start, save_answers


def fill(service: Service) -> Service:
    """Six right answers, three wrong ones and one without an answer."""
    contexts: list[Any] = [{"answer": 42}] * 6 + [{"answer": 41}] * 3 + [{"question": "?"}]
    for n, context in enumerate(contexts):
        service.send({"uid": f"u{n}", "profile": "answers", "record_id": f"r{n}",
                      "context": context})  # fmt: skip
        if n >= 8:  # so that the last evaluation is made later than the others
            service.wait_for(n + 1)
    return service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all tests that only read."""
    folder = tmp_path_factory.mktemp("routes")
    service = Service(folder, profile=[str(save_answers(folder))])
    yield fill(service)
    service.stop()


@pytest.fixture
def own(start: Start, answers: Path) -> Service:
    """One that a test may change."""
    return fill(start(profile=[str(answers)]))


def test_pages(service: Service) -> None:
    seen: list[str] = []
    cursor: str | None = None
    sizes: list[int] = []
    while True:
        page = service.get("/api/v1/evaluations", limit=4, **({"cursor": cursor} if cursor else {}))
        seen += [item["uid"] for item in page["items"]]
        sizes.append(len(page["items"]))
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sizes == [4, 4, 2]
    assert sorted(seen) == sorted(f"u{n}" for n in range(10))


def test_filters(service: Service) -> None:
    def count(**filters: str) -> int:
        return len(service.get("/api/v1/evaluations", **filters)["items"])

    assert count(outcome="passed") == 6
    assert count(outcome="failed") == 3
    assert count(outcome="errored") == count(record_id="r9") == 1
    assert count(outcome="skipped") == count(trace_id="a" * 32) == 0
    assert count(profile="answers") == count(profile="deep-thought") == 10
    newest = service.get("/api/v1/evaluations", limit=1)["items"][0]["evaluated_at"]
    assert 1 <= count(since=newest) < 10
    assert count(since="0") == 10
    assert count(since="2100-01-01T00:00:00+00:00") == 0


def test_an_error_belongs_to_its_task(service: Service) -> None:
    (item,) = service.get("/api/v1/evaluations", outcome="errored")["items"]
    (task,) = item["tasks"]
    assert (task["outcome"], task["reason"]) == ("errored", "missing_path")
    assert "answer" in task["message"]
    assert "question" in task["message"]


def test_task_rates(service: Service) -> None:
    """6 of 10: centre (0.6 + 0.19207) / 1.38415 = 0.5722, half 0.2595."""
    (item,) = service.get("/api/v1/tasks")["items"]
    names = item["profile"], item["profile_name"], item["task_id"]
    assert names == ("answers", "deep-thought", "right")
    counts = [item[name] for name in ("passed", "failed", "errored", "skipped", "total")]
    assert counts == [6, 3, 1, 0, 10]
    assert item["pass_rate"] == 0.6
    assert (item["lower"], item["upper"]) == (
        pytest.approx(0.3127, abs=1e-4),
        pytest.approx(0.8318, abs=1e-4),
    )
    assert service.get("/api/v1/tasks", until="1")["items"] == []
    assert service.get("/api/v1/tasks", service_version="1")["items"] == []


@pytest.mark.parametrize("unit_ns", [1, 10**3, 10**6, 10**9])
def test_a_time_is_read_in_any_unit(service: Service, unit_ns: int) -> None:
    """An hour ago all, in an hour none; until is read alike, and so is a fraction."""
    now_ns = time.time_ns()
    for path in ("evaluations", "records", "sessions", "tasks"):

        def found(ns: int, name: str, path: str = path) -> bool:
            return bool(service.get(f"/api/v1/{path}", **{name: str(ns // unit_ns)})["items"])

        ago, ahead = now_ns - 3600 * 10**9, now_ns + 3600 * 10**9
        assert (found(ago, "since"), found(ahead, "since")) == (True, False), path
        assert (found(ago, "until"), found(ahead, "until")) == (False, True), path
    ahead = f"{(now_ns + 3600 * 10**9) / unit_ns:.3f}"
    assert service.get("/api/v1/evaluations", since=ahead)["items"] == []


@pytest.mark.parametrize("path", ["evaluations", "records", "sessions", "tasks", "tasks/series"])
def test_a_filter_that_nothing_can_meet_is_no_empty_list(service: Service, path: str) -> None:
    """Near names are shown; what is registered, and has nothing to show, is an empty list."""

    def status_and_detail(**params: str) -> tuple[int, str]:
        answer = service.http.get(f"/api/v1/{path}", params=params)
        return answer.status_code, answer.json().get("detail", "")

    for name in ("answer", "Answers", "answres"):
        message = f"profile: {name!r} is not registered; did you mean 'answers'?"
        assert status_and_detail(profile=name) == (404, message)
    assert status_and_detail(profile="deepthought") == (
        404, "profile: 'deepthought' is not registered; did you mean 'deep-thought'?",
    )  # fmt: skip
    assert status_and_detail(profile="zzz") == (
        404, "profile: 'zzz' is not registered; see GET /api/v1/profiles",
    )  # fmt: skip
    (known,) = service.get("/api/v1/profiles")["items"]
    for name in ("answers", "deep-thought", known["uid"], known["profile_version"]):
        assert (
            status_and_detail(
                profile=name, until="2000-01-01T00:00:00Z", since="1999-12-31T00:00:00Z"
            )[0]
            == 200
        )
    if path in ("evaluations", "tasks/series"):
        assert status_and_detail(task_id="rigth", profile="answers") == (
            404,
            "task_id: 'rigth' is a task of no version of 'answers'; did you mean 'right'?",
        )


def test_alerts(own: Service) -> None:
    """Baseline 0.9 ± 0.1: the upper bound 0.8318 of 6 in 10 is not below 0.8; 6 in 12 is."""
    (alert,) = own.get("/api/v1/alerts")["items"]
    assert (alert["state"], alert["since"]) == ("inactive", None)
    assert (alert["passed"], alert["n"], alert["window"], alert["min_samples"]) == (6, 10, 20, 5)
    line = 'scouter_alert_firing{alias="answers",profile="deep-thought",space="default"}'
    assert own.sample(line) == 0
    for n in (10, 11):
        own.send({"uid": f"u{n}", "profile": "answers", "context": {"answer": 0}})
    own.wait_for(12)
    (alert,) = own.get("/api/v1/alerts")["items"]
    assert (alert["state"], alert["pass_rate"]) == ("firing", 0.5)
    assert alert["condition"] == "pass rate below 80.0%"
    assert alert["since"].endswith("Z")
    assert own.sample(line) == 1


def test_profiles(service: Service) -> None:
    (item,) = service.get("/api/v1/profiles")["items"]
    assert (item["alias"], item["name"], item["version"]) == ("answers", "deep-thought", "4.2")
    assert (item["is_active"], item["reads_spans"], item["tasks"]) == (True, False, ["right"])
    assert len(item["profile_version"]) == 64


def test_metrics_and_api_agree_and_survive_a_restart(
    own: Service, start: Start, answers: Path
) -> None:
    def counts(of: Service) -> list[float | None]:
        labels = 'profile="deep-thought",space="default"'
        lines = [
            f'scouter_evaluations_total{{alias="answers",outcome="{outcome}",{labels},task="right"}}'
            for outcome in ("passed", "failed", "errored", "skipped")
        ]
        lines.append(
            f'scouter_records_evaluated_total{{alias="answers",outcome="failed",{labels}}}'
        )
        lines.append(f'scouter_records_received_total{{alias="answers",{labels}}}')
        return [of.sample(line) for line in lines]

    assert counts(own) == [6, 3, 1, 0, 3, 10]
    assert counts(start(profile=[str(answers)])) == [6, 3, 1, 0, 3, 10]


def test_counters_begin_at_zero(untouched: Service) -> None:
    """So that Prometheus sees an increase from the first evaluation on."""
    text = untouched.http.get("/metrics").text
    for outcome in ("passed", "failed", "errored", "skipped"):
        assert f'scouter_evaluations_total{{alias="answers",outcome="{outcome}",' in text
    assert 'scouter_spans_received_total{space="default"} 0.0' in text
    assert "scouter_build_info{" in text
    assert "scouter_records_waiting 0.0" in text


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/api/v1/evaluations?limit=0", 400, "limit"),
        ("/api/v1/evaluations?limit=1001", 400, "limit"),
        ("/api/v1/evaluations?outcome=great", 400, "outcome"),
        ("/api/v1/evaluations?since=yesterday", 400, "since: 'yesterday' is no time"),
        ("/api/v1/evaluations?cursor=abc", 400, "cursor: not a cursor"),
        ("/api/v1/tasks?until=-1", 400, "until"),
        ("/api/v1/traces/xyz", 400, "32 hex digits"),
        ("/api/v1/traces/" + "0" * 32, 400, "32 hex digits"),
        ("/api/v1/traces/" + "a" * 32, 404, "no span of the trace"),
        ("/api/v1/nothing", 404, "no route '/api/v1/nothing'; GET /openapi.json lists"),
        ("/v1/records", 405, "GET is not for this route; it takes POST"),
    ],
)
def test_errors_are_problem_documents(
    untouched: Service, path: str, status: int, detail: str
) -> None:
    answer = untouched.http.get(path)
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert detail in problem["detail"]


def test_a_fault_is_a_problem_document_too(
    untouched: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = untouched

    def broken(space: str) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(service.collector.store, "conservation", broken)
    answer = service.http.get("/api/v1/conservation")
    assert (answer.status_code, answer.json()["title"]) == (500, "Internal Server Error")
    assert "secret" not in answer.text
    assert "/api/v1/conservation' failed" in caplog.text


def test_probes(untouched: Service) -> None:
    assert untouched.get("/healthz")["status"] == "ok"
    assert untouched.get("/readyz")["status"] == "ready"


def test_the_openapi_document_has_the_bodies_that_are_read_here(untouched: Service) -> None:
    """The routes are those of `tests/cases/routes.txt`; every reference leads somewhere."""
    document = untouched.get("/openapi.json")
    models = document["components"]["schemas"]
    for path, field in (("/v1/records", "records"), ("/api/v1/profiles", "tasks")):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        schema = body["schema"]
        if "$ref" in schema:
            schema = models[schema["$ref"].removeprefix("#/components/schemas/")]
        assert field in schema["properties"]
    assert models["SpanStatus"] != models["Profile-SpanStatus"]  # a span's, and a filter's
    assert not any("." in name for name in models), "anchors of the documentation have no dot"
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(document)):
        assert reference.removeprefix("#/components/schemas/") in models


@pytest.mark.parametrize("position", [(0, 0), (17, 4), (2**61, 3), (1, -(2**63))])
def test_cursors(position: tuple[int, int]) -> None:
    for as_of in (None, 0, 2**61):
        text = write_cursor(position, as_of)
        assert text is not None
        assert read_cursor(text) == (position, as_of)


@pytest.mark.parametrize(
    "text", ["", "é", "MTcuNA==", "MTc", "LTEuNA", "MTcuNCA", "a" * 90, "MTcuNC4tMQ", "MTcuNC4wLjA"]
)
def test_tampered_cursors(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        read_cursor(text)
    assert caught.value.status == 400
