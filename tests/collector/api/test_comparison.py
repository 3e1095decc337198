"""Versions, periods and offline runs compared with each other; numbers are worked out by hand."""

import time
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Any

import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, Span
from tests.collector.conftest import Service, Start
from tests.support.files import files_with
from tests.support.processes import wait_until
from tests.support.replay_results import record, results, scenario, span

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def trace_id(version: str, number: int) -> str:
    return f"{sum(version.encode()):016x}{number + 1:016x}"


def send_version(
    service: Service,
    version: str,
    answers: Sequence[int | None],
    *,
    ids: Sequence[str] = (),
    tools: Sequence[str] = ("search",),
) -> None:
    """Send a record with each answer, each on a trace of a version; the answer 42 passes.

    A record without an answer errors, as its path is missing.
    """
    resource = Resource(attributes={"service.name": "desk", "service.version": version})
    for number, answer in enumerate(answers):
        spans = [
            Span(
                trace_id=trace_id(version, number), span_id=f"{at + 1:016x}", name=tool,
                start_ns=at, end_ns=at + 1, resource=resource,
                attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool},
            )
            for at, tool in enumerate(tools)
        ]  # fmt: skip
        data = encode_request(spans).SerializeToString()
        assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
        service.send(
            {
                "uid": f"{version}-{number}", "profile": "answers",
                "trace_id": trace_id(version, number),
                "record_id": ids[number] if ids else "",
                "context": {} if answer is None else {"answer": answer},
            }
        )  # fmt: skip


def push(service: Service, run: ScenarioEvalResults, name: str = "", status: int = 201) -> Any:
    body = run.model_dump_json()
    answer = service.http.post(
        "/api/v1/runs",
        params={"name": name},
        content=body,
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture
def service(start: Start, answers: Path) -> Service:
    return start(profile=[str(answers)])


def closed(service: Service, **query: str) -> Any:
    """Two versions up to now, so that no more records can come to them."""
    now = str(time.time_ns())
    return service.get(
        "/api/v1/comparison", profile="answers", before_until=now, until=now, **query
    )


def test_versions_without_common_ids_are_two_samples(service: Service) -> None:
    """Eight of eight against none of eight: one of C(16, 8) ways, of which a mid-p counts half."""
    send_version(service, "1.0", [42] * 8)
    send_version(service, "2.0", [41] * 8)
    service.wait_for(16)
    found = closed(service, before_version="1.0", version="2.0")
    whole = found["rates"][0]
    assert found["pairing"] == "apart"
    assert whole["label"] == "records passed"
    assert whole["p_value"] == pytest.approx(0.5 / comb(16, 8))
    assert (whole["before_passed"], whole["after_passed"], whole["after_count"]) == (8, 0, 8)
    assert (found["word"], found["exit_code"]) == ("regressed", 1)
    assert found["headline"] == "Records passed: 0.0 % now, 100.0 % before."
    assert found["before"]["label"] == "version 1.0, until " + found["before"]["label"][-16:]
    assert found["changes"] == []
    assert any("two samples" in note for note in found["notes"])
    assert found["state"].startswith("Closed")
    assert not found["is_every_look"]
    assert not found["after"]["is_open"]


def test_a_version_that_takes_traffic_has_an_interval_for_every_look(service: Service) -> None:
    """It is wider than that of one look, and the p-value is larger."""
    send_version(service, "1.0", [42] * 12)
    send_version(service, "2.0", [42] * 6 + [41] * 6)
    service.wait_for(24)
    query = {"before_version": "1.0", "version": "2.0"}
    once = closed(service, **query)["rates"][0]
    found = service.get("/api/v1/comparison", profile="answers", **query)
    always = found["rates"][0]
    assert found["is_every_look"]
    assert found["after"]["is_open"]
    assert found["state"].startswith("Still taking traffic: version 1.0 and version 2.0.")
    assert always["lower"] < once["lower"] < once["upper"] < always["upper"]
    assert always["p_value"] > once["p_value"]
    assert (found["word"], found["exit_code"]) == ("inconclusive", 3)
    assert found["advice"] == ["wait for more records"]


def test_a_fall_is_split_into_traffic_and_behaviour(service: Service) -> None:
    """Refunds pass in half, others always; refunds are 10 of 40, then 30 of 40, and call a tool."""
    for version, refunds in (("1.0", 10), ("2.0", 30)):
        kinds = ["refund"] * refunds + ["other"] * (40 - refunds)
        records = [
            {
                "uid": f"{version}-{at}", "profile": "answers", "tags": {"kind": kind},
                "trace_id": trace_id(version, at),
                "context": {"answer": 41 if kind == "refund" and at % 2 else 42},
            }
            for at, kind in enumerate(kinds)
        ]  # fmt: skip
        resource = Resource(attributes={"service.name": "desk", "service.version": version})
        spans = [
            Span(
                trace_id=trace_id(version, at), span_id=f"{1:016x}", name="call", start_ns=1,
                end_ns=2, resource=resource,
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "pay" if kind == "refund" else "search",
                    "gen_ai.prompt.name": "desk",
                    "gen_ai.prompt.version": version,
                },
            )
            for at, kind in enumerate(kinds)
        ]  # fmt: skip
        data = encode_request(spans).SerializeToString()
        assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
        service.send(*records)
    service.wait_for(80)
    found = closed(service, before_version="1.0", version="2.0")
    why = found["explanation"]
    parts = {each["name"]: each["difference"] for each in why["parts"]}
    assert parts == {
        "traffic": pytest.approx(-0.25), "route": pytest.approx(0), "behaviour": pytest.approx(0),
    }  # fmt: skip
    assert "because other traffic came: traffic" in why["sentence"]
    assert not any(each["is_named"] for each in why["traits"])
    assert found["advice"][0].startswith("look at what users ask first")
    assert why["setup"] == [
        {"name": f"{kind} desk {version}", "before": before, "after": 1 - before}
        for kind in ("prompt", "version")
        for version, before in (("1.0", 1.0), ("2.0", 0.0))
    ]
    ran_with = service.get("/api/v1/setups", profile="answers")
    assert ran_with["looked_at"] == 80
    items = {(each["kind"], each["name"]): each for each in ran_with["items"]}
    assert items.keys() == {
        (kind, f"desk {version}") for kind in ("prompt", "version") for version in ("1.0", "2.0")
    }
    newer = items["prompt", "desk 2.0"]
    assert (newer["records"], newer["share"], newer["is_new"]) == (40, 1.0, True)
    for text, count in (("prompt=desk 2.0", 40), ("prompt=desk 3.0", 0)):
        listed = service.get("/api/v1/evaluations", setup=text, limit=50)["items"]
        assert len(listed) == count
        assert all(each["uid"].startswith("2.0-") for each in listed)
    for wrong in ("prompt", "prompt=", "colour=red", "version=desk 2.0"):
        refused = service.http.get("/api/v1/evaluations", params={"setup": wrong})
        assert refused.status_code == 400
        assert "setup: expected KIND=VALUE with a kind of prompt, " in refused.json()["detail"]


def test_versions_with_common_ids_are_paired(service: Service) -> None:
    """The ids that one side has alone are no loss; an id that is there twice is paired twice."""
    send_version(service, "1.0", [42, 42, 42, 41, 42], ids=["a", "b", "c", "d", "old"])
    send_version(service, "2.0", [42, 41, 42, 42], ids=["a", "b", "c", "d"], tools=("look", "tell"))
    service.wait_for(9)
    found = service.get(
        "/api/v1/comparison", profile="answers", before_version="1.0", version="2.0"
    )
    whole = found["rates"][0]
    assert found["pairing"] == "ids"
    assert (whole["before_passed"], whole["before_count"]) == (3, 4)
    assert (whole["fell"], whole["rose"]) == (1, 1)
    changes = [(each["name"], each["is_worse"]) for each in found["changes"]]
    assert changes == [("b", True), ("d", False)]
    worse = found["changes"][0]
    assert worse["before"]["shown"] == {"context": {"answer": 42}}
    (call,) = worse["before"]["calls"]
    assert (call["name"], call["duration_ms"], call["result"]) == ("search", 1e-6, None)
    assert [each["name"] for each in worse["after"]["calls"]] == ["look", "tell"]
    assert worse["after"]["uid"] == "2.0-1"
    assert worse["after"]["trace_id"] == trace_id("2.0", 1)
    (task,) = worse["after"]["tasks"]
    assert task["outcome"] == "failed"
    assert "41" in task["message"]
    assert any("4 of 5 before and of 4 now" in note for note in found["notes"])


def test_records_that_changed_alike_are_one_change(service: Service) -> None:
    """By tools: one record calls another one, and of the other two the newer one comes first."""
    ids = ["a", "b", "c"]
    send_version(service, "1.0", [42] * 3, ids=ids)
    send_version(service, "2.0", [41] * 2, ids=ids)
    send_version(service, "2.1", [41], ids=["c"], tools=("look",))
    service.wait_for(6)
    (border,) = {
        each["created_at"] for each in service.get("/api/v1/evaluations")["items"]
        if each["uid"] == "2.0-0"
    }  # fmt: skip
    found = service.get("/api/v1/comparison", profile="answers", before_version="1.0", since=border)
    assert [each["name"] for each in found["changes"]] == ["b", "c"]
    (alike,) = found["changes"][0]["alike"]
    assert (alike["name"], alike["before"]["uid"], alike["after"]["uid"]) == ("a", "1.0-0", "2.0-0")
    assert alike["after"]["created_at"] == border
    assert found["changes"][1]["alike"] == []
    assert (found["more_changes"], found["changes"][0]["more_alike"]) == (0, 0)


def test_a_side_tells_how_long_its_traces_are_and_their_tokens(service: Service) -> None:
    """Of 1, 2, 3 and 10 ms half last 2.5 at most; of 2, 4, 6 and 8 cents the mean is 5."""
    for number, took_ms in enumerate((3, 1, 10, 2)):
        chat = Span(
            trace_id=trace_id("2.0", number), span_id=f"{9:016x}", name="chat", start_ns=0,
            end_ns=took_ms * 10**6,
            attributes={
                "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10 * number,
                "gen_ai.usage.output_tokens": 1, "gen_ai.usage.cost": 0.02 * (number + 1),
            },
        )  # fmt: skip
        data = encode_request([chat]).SerializeToString()
        assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    send_version(service, "1.0", [42])
    send_version(service, "2.0", [42] * 4)
    service.wait_for(5)
    found = service.get(
        "/api/v1/comparison", profile="answers", before_version="1.0", version="2.0"
    )
    assert found["after"]["figures"] == {
        "traces": 4, "median_ms": 2.5, "p95_ms": 10.0, "input_tokens": 15.0, "output_tokens": 1.0,
        "cost": pytest.approx(0.05), "unpriced_models": [],
    }  # fmt: skip
    assert found["before"]["figures"]["input_tokens"] is None
    assert not any("Mean cost" in note for note in found["notes"])


def test_the_difference_of_mean_costs_has_an_interval(service: Service) -> None:
    """Eight conversations of 1 to 8 cents, then of 3 to 10; t(0.975, 7) is 2.36462.

    The variance of 1 to 8 is 6, so that each mean is known to 2.36462 * sqrt(6 / 8) = 2.04783
    cents, and the difference of 2 cents to sqrt(2) times as much: 2.89607.
    """
    for version, least in (("1.0", 1), ("2.0", 3)):
        for number in range(8):
            used = {
                "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 1,
                "gen_ai.usage.output_tokens": 1, "gen_ai.usage.cost": (least + number) / 100,
            }  # fmt: skip
            chat = Span(
                trace_id=trace_id(version, number), span_id=f"{9:016x}", name="chat", start_ns=0,
                end_ns=1, attributes=used,
            )  # fmt: skip
            data = encode_request([chat]).SerializeToString()
            assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
        send_version(service, version, [42] * 8)
    service.wait_for(16)
    query = {"profile": "answers", "before_version": "1.0", "version": "2.0"}
    notes = service.get("/api/v1/comparison", **query)["notes"]
    assert notes[-1] == (
        "Mean cost of a trace: 0.045 USD before, 0.065 USD now: "
        "+0.02 (95 % at one look: -0.008961 to +0.04896)."
    )


def test_versions_of_a_profile_are_listed(service: Service) -> None:
    """Those of evaluations that looked at no spans are known by a span of the trace."""
    send_version(service, "1.0", [42])
    service.wait_for(1)
    send_version(service, "2.0", [42, 41])
    service.wait_for(3)
    found = service.get("/api/v1/versions", profile="answers")["items"]
    assert [(each["version"], each["records"]) for each in found] == [("2.0", 2), ("1.0", 1)]


def test_periods_are_compared(service: Service) -> None:
    send_version(service, "1.0", [42])
    service.wait_for(1)
    (first,) = service.get("/api/v1/evaluations")["items"]
    send_version(service, "2.0", [41])
    service.wait_for(2)
    border = service.get("/api/v1/evaluations")["items"][0]["evaluated_at"]
    assert border > first["evaluated_at"]
    found = service.get("/api/v1/comparison", profile="answers", before_until=border, since=border)
    assert (found["before"]["records"], found["after"]["records"]) == (1, 1)


def test_a_run_is_stored_once_and_compared_with_another(service: Service) -> None:
    """Six scenarios that passed fail now: half of (1/2)^6, by the mid-p of the sign test."""
    names = [f"s{number}" for number in range(6)]
    before = results([scenario(name, {"right": True}) for name in names])
    after = results(
        [scenario(name, {"right": False}, traces=[span("other", 1, None, 0, 1)]) for name in names]
    )
    first = push(service, before, "monday")
    assert push(service, before, "again", status=200)["run_id"] == first["run_id"]
    second = push(service, after)
    listed = service.get("/api/v1/runs")["items"]
    assert [each["run_id"] for each in listed] == [second["run_id"], first["run_id"]]
    assert (listed[1]["name"], listed[1]["scenarios"], listed[1]["scenarios_passed"]) == (
        "monday", 6, 6,
    )  # fmt: skip
    found = service.get("/api/v1/comparison", before_run=first["run_id"], run=second["run_id"])
    assert found["word"] == "regressed"
    assert found["rates"][0]["p_value"] == pytest.approx(0.5**7)
    assert found["pairing"] == "scenarios"
    assert [each["name"] for each in found["changes"]] == names
    worse = found["changes"][0]
    assert worse["after"]["shown"]["asked"] == "What about s0?"
    assert worse["after"]["shown"]["answered"] == "Soon."
    assert worse["before"]["outcome"] == "passed"


def test_a_run_is_compared_with_what_is_live(service: Service) -> None:
    """Records of the run without ids of the live ones: two samples, by the profile's tasks."""
    rows = [(f"s{at}", record(f"r{at}", {"right": True, "other": True})) for at in range(3)]
    run = push(service, results([], {"answers": rows}), "offline")
    send_version(service, "2.0", [41] * 3)
    service.wait_for(3)
    found = service.get("/api/v1/comparison", profile="answers", before_run=run["run_id"])
    assert found["pairing"] == "apart"
    assert found["rates"][0]["p_value"] is None
    assert (found["word"], found["exit_code"]) == ("inconclusive", 3)
    assert "3 conversations are too few" in found["reasons"][0]
    assert found["advice"] == ["wait for more records"]
    assert any("only there before: other" in note for note in found["notes"])
    assert found["before"]["label"].startswith("run 'offline' of ")


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "profile: needed"),
        ("?profile=answers", 400, "both sides are the same"),
        ("?profile=answers&version=9", 409, "no evaluated records"),
        ("?profile=answers&run=00", 404, "no run '00' is stored"),
        ("?profile=answers&since=yesterday", 400, "since"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    untouched: Service, query: str, status: int, words: str
) -> None:
    answer = untouched.http.get(f"/api/v1/comparison{query}")
    assert answer.status_code == status
    assert words in answer.json()["detail"]


def body_with(provenance: str) -> bytes:
    return b'{"schema_version": 1, "results": [], "provenance": %s}' % provenance.encode()


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff", b"[]", b'{"results": [{"a": 1}]}',
        body_with('{"ended_ns": 1%s}' % ("0" * 30)),
        body_with('{"ended_ns": -70000000000000000000}'),
        body_with(r'{"agent": "\ud800"}'),
    ],
)  # fmt: skip
def test_what_is_no_run_is_refused(untouched: Service, body: bytes) -> None:
    answer = untouched.http.post(
        "/api/v1/runs", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    assert answer.json()["detail"]
    assert untouched.get("/api/v1/runs")["items"] == []


def test_an_erasure_takes_a_run_that_speaks_of_the_record(service: Service, tmp_path: Path) -> None:
    """Its bytes go, too; a run that does not stays."""
    secret = "told-to-the-desk-alone"
    spoken = push(service, results([scenario("u1", {"right": True}, answer=secret)]))
    other = push(service, results([scenario("u2", {"right": True})]))
    done = service.http.post("/api/v1/erase", json={"record_uid": "u1"}).json()
    assert done["runs"] == 1
    assert [each["run_id"] for each in service.get("/api/v1/runs")["items"]] == [other["run_id"]]
    answer = service.http.get(f"/api/v1/comparison?run={spoken['run_id']}&before_run=0")
    assert answer.status_code == 404
    wait_until(lambda: not files_with(tmp_path / "data", secret.encode()), what="bytes that go")


def test_runs_go_by_retention_and_by_an_order(service: Service) -> None:
    first, second = (
        push(service, results([scenario(name, {"right": True})])) for name in ("a", "b")
    )
    done = service.http.post(f"/api/v1/runs/{first['run_id']}/remove")
    assert done.json() == {"run_id": first["run_id"]}
    assert service.http.post(f"/api/v1/runs/{first['run_id']}/remove").status_code == 404
    assert [each["run_id"] for each in service.get("/api/v1/runs")["items"]] == [second["run_id"]]
    service.collector.store.remove_before(2**62)
    assert service.get("/api/v1/runs")["items"] == []


def test_a_backup_has_the_runs(start: Start, tmp_path: Path) -> None:
    service = start(backups=str(tmp_path / "copies"))
    run = push(service, results([scenario("a", {"right": True})]))
    assert service.http.post("/api/v1/backup", json={"folder": "one"}).status_code == 201
    (tmp_path / "again").mkdir()
    (tmp_path / "copies" / "one").rename(tmp_path / "again" / "data")
    again = Service(tmp_path / "again")
    assert [each["run_id"] for each in again.get("/api/v1/runs")["items"]] == [run["run_id"]]
    again.stop()


def test_spaces_and_scopes_hold_for_runs(start: Start, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "data")
    _, sender = tokens.create("ci", [Scope.INGEST], "shop")
    _, reader = tokens.create("ada", [Scope.READ], "shop")
    _, foreign = tokens.create("eve", Scope, "bank")
    service = start()

    def ask(token: str, method: str, path: str, body: bytes | None = None) -> Any:
        sent = {"Content-Type": "application/json"} if body is not None else {}
        headers = {"Authorization": f"Bearer {token}", **sent}
        return service.http.request(method, path, headers=headers, content=body)

    body = results([scenario("a", {"right": True})]).model_dump_json().encode()
    assert ask(reader, "POST", "/api/v1/runs", body).status_code == 403
    assert ask(sender, "POST", "/api/v1/runs", body).status_code == 201
    assert len(ask(reader, "GET", "/api/v1/runs").json()["items"]) == 1
    assert ask(foreign, "GET", "/api/v1/runs").json()["items"] == []
    run_id = ask(reader, "GET", "/api/v1/runs").json()["items"][0]["run_id"]
    compared = f"/api/v1/comparison?run={run_id}&before_run={run_id}x"
    assert run_id in ask(foreign, "GET", compared).json()["detail"]
    removed = ask(foreign, "POST", f"/api/v1/runs/{run_id}/remove", b"{}")
    assert removed.status_code == 404
    assert ask(foreign, "GET", "/api/v1/versions?profile=answers").json() == {"items": []}


def test_a_file_of_some_megabytes_fits_and_a_larger_one_is_refused(service: Service) -> None:
    """Questions take a megabyte, files of results 32."""
    many = results([scenario(f"s{at}", {"right": True}, answer="x" * 500_000) for at in range(4)])
    assert push(service, many)["scenarios"] == 4
    answer = service.http.post(
        "/api/v1/runs",
        content=b" " * (32 * 2**20 + 1),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 413
