"""Results sent on: nothing is lost, the order stays, whatever the far side does."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from collector.care.retention import FileNote
from collector.results.endpoint import connect
from collector.results.events import MAX_BYTES, MAX_EXPLANATION, UNLINKED, Link, link, requests
from collector.results.sender import PAGE, Cursor, ResultsSender
from collector.store.rows import FIRST_RESULT, EvaluationRow, ResultPlace, Scope, TaskRow
from scouter.errors import TransientError
from scouter.evaluate.outcome import Outcome
from scouter.model.attributes import QUEUE_EVENT, QUEUE_RECORD
from scouter.model.span import Span, SpanEvent
from tests.collector.conftest import Start
from tests.contracts.cursor import CursorContract, Make
from tests.contracts.store_data import SPACE, TRACE, evaluation, span
from tests.support.collector_process import CollectorProcess
from tests.support.otlp_logs_server import Fault, LogsServer, OtlpGrpcLogsServer, OtlpLogsServer
from tests.support.processes import wait_until
from tests.support.store_appends import AppendingStore


def task(number: int = 0, outcome: Outcome = Outcome.PASSED, **fields: Any) -> TaskRow:
    given: dict[str, Any] = {
        "task_id": f"t{number}", "task_type": "Assertion", "message": "as it should be",
    }  # fmt: skip
    return TaskRow(outcome=outcome, **(given | fields))


def evaluations(*numbers: int, **fields: Any) -> list[EvaluationRow]:
    two = (task(0), task(1))
    return [
        evaluation(f"u{n}", tasks=two, evaluation_id=f"e{n} {fields}", **fields) for n in numbers
    ]


def expected(*numbers: int, revision: int = 1) -> list[tuple[str, str, int]]:
    return [(f"u{n}", f"t{t}", revision) for n in numbers for t in range(2)]


def no_calibration(row: EvaluationRow, task: TaskRow) -> None:
    del row, task


def cursor_of(folder: Path, endpoint: str) -> Cursor:
    return Cursor(FileNote(folder / "cursor.json"), endpoint)


class Setting:
    """A store, an endpoint, and senders that come one after the other."""

    def __init__(self, folder: Path, server: LogsServer) -> None:
        self.folder = folder
        self.store = AppendingStore(folder / "data")
        self.server = server
        self.metrics = CollectorRegistry()
        self.sender: ResultsSender | None = None

    def start(self, **times: Any) -> None:
        self.metrics = CollectorRegistry()
        given: dict[str, Any] = {"look_every_s": 0.03, "first_wait_s": 0.01, "longest_wait_s": 0.05}
        headers = {"authorization": SecretStr("Bearer x")}
        self.sender = ResultsSender(
            self.store,
            connect(self.server.url, headers, timeout_s=2),
            cursor_of(self.folder, self.server.url),
            self.metrics,
            no_calibration,
            **(given | times),
        )
        self.sender.start()

    def stop(self) -> None:
        if self.sender is not None:
            self.sender.stop()
            self.sender = None

    def restart(self, **times: Any) -> None:
        self.stop()
        self.start(**times)

    def add(self, *numbers: int, **fields: Any) -> None:
        self.store.append_evaluations(evaluations(*numbers, **fields)).result()

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.server.events) >= count, what=f"{count} events")

    def sample(self, name: str) -> float:
        value = self.metrics.get_sample_value(f"scouter_results_{name}")
        assert value is not None
        return value


@pytest.fixture(params=[OtlpLogsServer, OtlpGrpcLogsServer], ids=["http", "grpc"])
def server(request: pytest.FixtureRequest) -> LogsServer:
    """An endpoint of each protocol, where a test does not name one."""
    return request.param()


@pytest.fixture
def setting(tmp_path: Path, server: LogsServer) -> Iterator[Setting]:
    setting = Setting(tmp_path, server)
    yield setting
    setting.stop()
    setting.server.stop()
    setting.store.close()


def test_every_evaluation_in_the_order_of_commits(setting: Setting) -> None:
    """Stored before and after the start, more than a page, and a revision with its number."""
    setting.add(*range(2 * PAGE + 1))
    setting.start()
    setting.add(100)
    setting.add(3, revision=2)
    setting.add(101)
    setting.wait_for(2 * (2 * PAGE + 4))
    assert setting.server.names() == [
        *expected(*range(2 * PAGE + 1), 100), *expected(3, revision=2), *expected(101),
    ]  # fmt: skip
    wait_until(lambda: setting.sample("lag_seconds") == 0, what="no lag")
    assert setting.sample("sent_total") == 2 * (2 * PAGE + 4)
    assert {each["authorization"] for each in setting.server.requests} == {"Bearer x"}


def test_a_failing_endpoint_is_tried_again(setting: Setting) -> None:
    setting.server.faults.extend([Fault(setting.server.unavailable)] * 3)
    setting.add(1, 2)
    setting.start()
    setting.wait_for(4)
    setting.add(3)
    setting.wait_for(6)
    assert setting.server.names() == expected(1, 2, 3)
    assert setting.sample("failures_total") == 3
    assert setting.sample("refused_total") == 0


def test_the_wait_that_is_requested_is_honoured(setting: Setting) -> None:
    """Sent away for an hour, it does not come before; it ends all the same when stopped."""
    setting.server.faults.append(Fault(setting.server.unavailable, 3600))
    setting.start()
    setting.add(1)
    wait_until(lambda: setting.sample("failures_total") == 1, what="the refusal")
    setting.add(2)
    setting.stop()
    assert len(setting.server.requests) == 1
    setting.start()
    setting.wait_for(4)
    assert setting.server.names() == expected(1, 2)


def test_outages_and_restarts_lose_nothing(setting: Setting) -> None:
    setting.start()
    sent = 0
    for round_ in range(4):
        setting.add(*range(sent, sent + 5))
        sent += 5
        setting.wait_for(2 * sent)
        # Or the answer is cut off, and they come again as they may.
        wait_until(lambda: setting.sample("lag_seconds") == 0, what="the last ones are answered")
        setting.server.stop()
        setting.add(*range(sent, sent + 5))
        sent += 5
        failures = setting.sample("failures_total")
        wait_until(
            lambda failures=failures: setting.sample("failures_total") > failures, what="a failure"
        )
        assert setting.sample("lag_seconds") > 0
        if round_ % 2:
            setting.restart()
        setting.server.start()
    setting.wait_for(2 * sent)
    assert setting.server.names() == expected(*range(sent))


def test_after_a_crash_the_last_ones_come_again_at_most(setting: Setting) -> None:
    """A cursor that is behind, as after `kill -9`: sent again in order, and nothing left out."""
    setting.add(0, 1, 2)
    setting.start()
    setting.wait_for(6)
    setting.stop()
    at, _ = setting.store.results_after(FIRST_RESULT, 1)[0]
    cursor_of(setting.folder, setting.server.url).write(at)
    setting.add(3)
    setting.start()
    setting.wait_for(12)
    assert setting.server.names() == [*expected(0, 1, 2), *expected(1, 2, 3)]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"endpoint": 3}', '{"endpoint": "URL"}'])
def test_a_broken_cursor_sends_all_again(setting: Setting, content: str) -> None:
    file = setting.folder / "cursor.json"
    file.write_text(content.replace("URL", setting.server.url))
    setting.add(0)
    setting.start()
    setting.wait_for(2)
    assert setting.server.names() == expected(0)


class TestCursor(CursorContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        return lambda endpoint: cursor_of(tmp_path, endpoint)


def test_a_cursor_of_another_store_or_endpoint_is_none(setting: Setting) -> None:
    file = cursor_of(setting.folder, setting.server.url)
    file.write(ResultPlace(10**9, 0))
    assert file.read() == ResultPlace(10**9, 0)
    assert cursor_of(setting.folder, "http://other").read() == FIRST_RESULT
    setting.add(0)
    setting.start()
    setting.wait_for(2)


def test_what_is_refused_for_good_costs_only_itself(setting: Setting) -> None:
    setting.server.refused = frozenset({"bad"})
    setting.add(0, 1)
    bad = evaluation("u2", tasks=(task(task_id="bad"),), evaluation_id="bad")
    setting.store.append_evaluations([bad]).result()
    setting.add(3)
    setting.start()
    setting.wait_for(6)
    assert setting.server.names() == expected(0, 1, 3)
    wait_until(lambda: setting.sample("refused_total") == 1, what="the count")
    wait_until(lambda: setting.sample("sent_total") == 6, what="the count of those sent")


def test_a_partial_success_is_counted_and_not_sent_again(setting: Setting) -> None:
    setting.server.partial = 1
    setting.add(0)
    setting.start()
    wait_until(lambda: setting.sample("refused_total") == 1, what="the count")
    setting.add(1)
    setting.wait_for(4)
    assert setting.server.names() == expected(0, 1)


@pytest.mark.pace
def test_an_endpoint_that_hangs_holds_up_nothing(setting: Setting) -> None:
    """Nobody waits for the sender: commits go on while a request is under way."""
    setting.server.stop()
    with socket.create_server(("127.0.0.1", setting.server.port)) as silent:
        setting.start()
        setting.add(0)
        connection, _ = silent.accept()  # a request is under way, and is not answered
        with connection:
            began = time.monotonic()
            for n in range(1, 50):
                setting.add(n)
            assert time.monotonic() - began < 40  # each would wait the 2 s of a request
    setting.server.start()
    setting.wait_for(100)
    assert setting.server.names() == expected(*range(50))


# --- what an event says ---------------------------------------------------------------------


def test_an_event_has_the_names_of_the_conventions(setting: Setting) -> None:
    call = span(
        7,
        attributes={"gen_ai.operation.name": "chat", "gen_ai.response.id": "chatcmpl-1"},
        start_ns=15,
    )
    setting.store.append_spans(SPACE, [span(1), call], 1).result()
    row = evaluation(
        "u1",
        Outcome.FAILED,
        tasks=(
            task(0, Outcome.FAILED, message="expected 42"),
            task(1, Outcome.ERRORED, reason="missing_path"),
        ),
        trace_id=TRACE, service_name="shop", service_version="7", environment="live",
        profile_digest="d" * 64, session_id="s1",
    )  # fmt: skip
    setting.store.append_evaluations([row]).result()
    setting.start()
    setting.wait_for(2)
    first, second = setting.server.events
    assert first.log.event_name == "gen_ai.evaluation.result"
    assert (first.log.trace_id.hex(), first.log.span_id.hex()) == (TRACE, f"{7:016x}")
    assert first.log.time_unix_nano == row.evaluated_ns
    assert first.resource == {
        "service.name": "shop", "service.version": "7", "deployment.environment.name": "live",
    }  # fmt: skip
    assert first.attributes == {
        "gen_ai.evaluation.name": "t0",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.score.label": "failed",
        "gen_ai.evaluation.explanation": "expected 42",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.conversation.id": "s1",
        "scouter.space": SPACE,
        "scouter.profile.name": "answers",
        "scouter.profile.alias": "answers",
        "scouter.profile.version": "d" * 64,
        "scouter.task.type": "Assertion",
        "scouter.evaluation.id": row.evaluation_id,
        "scouter.evaluation.scope": "record",
        "scouter.evaluation.revision": 1,
        "scouter.evaluation.outcome": "failed",
        "scouter.record.uid": "u1",
        "scouter.record.id": "record u1",
    }
    assert second.attributes["error.type"] == "missing_path"
    assert "gen_ai.evaluation.score.value" not in second.attributes


@pytest.mark.parametrize(
    ("given", "score"),
    [
        (task(outcome=Outcome.PASSED, actual=347), 1.0),
        (task(outcome=Outcome.FAILED, actual=347), 0.0),
        (task(outcome=Outcome.PASSED, task_type="LLMJudge", actual=4), 4.0),
        (task(outcome=Outcome.FAILED, task_type="LLMJudge", actual=0.25), 0.25),
        (task(outcome=Outcome.FAILED, task_type="LLMJudge", actual=True), 0.0),
        (task(outcome=Outcome.PASSED, task_type="LLMJudge", actual="good"), 1.0),
        (task(outcome=Outcome.PASSED, task_type="LLMJudge", actual=10**400), 1.0),
        (task(outcome=Outcome.PASSED, task_type="LLMJudge", actual=4, stated_score=3.5), 3.5),
        (task(outcome=Outcome.FAILED, task_type="Trajectory", actual=0.5), 0.5),
        (task(outcome=Outcome.ERRORED, actual=1), None),
        (task(outcome=Outcome.SKIPPED), None),
    ],
)
def test_scores(given: TaskRow, score: float | None) -> None:
    assert given.score == score


def _call(number: int, start_ns: int, **attributes: str) -> Span:
    named = {"gen_ai.operation.name": "chat", **attributes}
    return span(number, start_ns=start_ns, attributes=named, parent_span_id=f"{1:016x}")


_ROOT = span(1, start_ns=1)
_MARKED = span(
    5, start_ns=4, parent_span_id=f"{1:016x}",
    events=(SpanEvent(name=QUEUE_EVENT, time_ns=4, attributes={QUEUE_RECORD: "u1"}),),
)  # fmt: skip
_ANSWERED = {"gen_ai.response.id": "r2"}


@pytest.mark.parametrize(
    ("spans", "found"),
    [
        pytest.param([_ROOT], Link(span_id=f"{1:016x}"), id="root"),
        pytest.param(
            [_call(3, 9, **_ANSWERED), _ROOT, _call(2, 5)],
            Link(span_id=f"{3:016x}", response_id="r2"),
            id="last-call",
        ),
        pytest.param(
            [_ROOT, _MARKED, _call(3, 9, **_ANSWERED)],
            Link(span_id=f"{5:016x}", response_id="r2"),
            id="where-it-was-handed-over",
        ),
        pytest.param([span(9, parent_span_id="f" * 16)], Link(span_id=f"{9:016x}"), id="orphan"),
    ],
)
def test_the_span_of_an_evaluation(spans: list[Span], found: Link) -> None:
    assert link(spans, "u1") == found


def test_a_session_has_no_span(setting: Setting) -> None:
    setting.add(1, scope=Scope.SESSION)
    setting.start()
    setting.wait_for(2)
    log = setting.server.events[0].log
    assert (log.trace_id, log.span_id) == (b"", b"")


def test_requests_are_bounded_and_hold_whole_evaluations() -> None:
    many = tuple(task(n, message="x" * 2 * MAX_EXPLANATION) for n in range(100))
    rows = [evaluation(f"u{n}", tasks=many) for n in range(5)] + [evaluation("none", tasks=())]
    found = list(requests([(row, UNLINKED) for row in rows], no_calibration))
    assert sum(count for count, _ in found) == 6
    assert len(found) == 3  # 100 events of a little more than 4 KiB: two evaluations fit into 1 MiB
    for _, request in found:
        assert request.ByteSize() <= MAX_BYTES
    giant = [evaluation("u", tasks=tuple(task(n, message="x" * 5000) for n in range(1000)))]
    ((count, request),) = requests([(row, UNLINKED) for row in giant], no_calibration)
    assert count == 1
    assert len(request.resource_logs[0].scope_logs[0].log_records) == 1000


def test_a_store_that_cannot_be_read_now_is_read_again(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = setting.store.results_after
    left = [2]

    def fails(place: ResultPlace, limit: int) -> Any:
        if left[0]:
            left[0] -= 1
            raise TransientError("not now")
        return real(place, limit)

    monkeypatch.setattr(setting.store, "results_after", fails)
    setting.add(0)
    setting.start()
    setting.wait_for(2)
    assert setting.sample("failures_total") == 2


# --- the collector --------------------------------------------------------------------------


@pytest.fixture
def endpoint(server: LogsServer) -> Iterator[LogsServer]:
    yield server
    server.stop()


def test_the_collector_sends_what_it_decides(
    start: Start, answers: Path, endpoint: LogsServer
) -> None:
    path = "/v1/logs" if isinstance(endpoint, OtlpLogsServer) else "/"
    service = start(
        profile=[str(answers)],
        results_otlp=endpoint.url + path,
        results_otlp_headers="Authorization=Bearer%20x, team=blue",
    )
    assert "Bearer" not in repr(service.collector.settings)
    for n in range(3):
        service.send({"uid": f"u{n}", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(3)
    wait_until(lambda: len(endpoint.events) == 3, what="three events")
    assert sorted(endpoint.names()) == [(f"u{n}", "right", 1) for n in range(3)]
    sent = endpoint.requests[0]
    assert (sent["authorization"], sent["team"]) == ("Bearer x", "blue")
    wait_until(lambda: service.sample("scouter_results_lag_seconds") == 0, what="no lag")
    assert service.sample("scouter_results_sent_total") == 3


@pytest.mark.parametrize("server", [OtlpLogsServer], indirect=True)
def test_kill_9_loses_nothing_and_keeps_the_order(
    tmp_path: Path, answers: Path, endpoint: LogsServer
) -> None:
    """Killed while it sends, with an endpoint that fails now and then."""
    collector = CollectorProcess(tmp_path, "--profile", answers, "--results-otlp", endpoint.url)
    try:
        for round_ in range(2):
            collector.start()
            endpoint.faults.extend([Fault(endpoint.unavailable, 0)] * (round_ + 1))
            for n in range(40):
                record = {"uid": f"{round_}-{n}", "profile": "answers", "context": {"answer": n}}
                httpx.post(f"{collector.url}/v1/records", json={"records": [record]}, timeout=120)
            collector.kill()
        collector.start()
        wait_until(
            lambda: len({each for each in endpoint.names()}) == 80,
            what="every evaluation",
        )  # fmt: skip
        stored = [item["uid"] for item in reversed(collector.evaluations())]
    finally:
        collector.close()
    first_seen = list(dict.fromkeys(uid for uid, _, _ in endpoint.names()))
    assert first_seen == stored
    assert len(stored) == 80
