"""How long answers take over HTTP when much is stored and spans come in all the time.

`python -m tests.bench.api` stores 5 million spans of one day and a million evaluations (`--spans
N`, `--evaluations N`), starts a collector on them, has another process send 5,000 spans of 2.8 kB a
second (`--rate N`), and asks each question a hundred times, with another value each time where
there are several. It prints the 50th and 95th percentile in ms. The first line and the last are of
`/healthz`, which asks the store nothing: what differs there is the machine. `--data DIR` keeps the
store, or takes one that was kept. `--short` is for tests.

Texts differ: every span has ids and a message of its own, every evaluation a message. Spans are
asked for by each promoted attribute: by a value that many have, one that few have, and one that
none has. Evaluations are of a hundred tasks.
"""

import argparse
import http.client
import json
import multiprocessing
import random
import secrets
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from collector.items.limits import Limits
from collector.log.port import Entry, Item, Kind
from collector.store.commit import Commit
from collector.store.rows import Completeness, EvaluationRow, RecordRow, TaskRow
from collector.store.store import Store
from collector.worker.prepare import Prepared
from collector.worker.profiles import ProfileRegistry
from collector.worker.take import read_entry
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.bench.collector import Texts, make_profile, process_id, status_mb
from tests.bench.figures import Figures
from tests.support.collector_process import CollectorProgram
from tests.support.processes import wait_until
from tests.support.store_appends import AppendingStore

_DAY_NS: Final = 86_400 * 10**9
_HOUR_NS: Final = 3600 * 10**9
_BATCH: Final = 500
_PER_TRACE: Final = 10
_COMMIT: Final = 5_000
"""Spans of one commit, as of a worker that is busy."""
_STORED_TEXT, _LIVE_TEXT = 300, 2_340
PROFILES: Final = tuple(f"shop-{number}" for number in range(50))
TASKS: Final = ("t0", "t1")
"""Of each profile."""
_LONG_TRACE: Final = secrets.token_hex(16)  # another one, where the store is kept
_TRACES: Final = "/v1/traces"


class Requests:
    """OTLP requests of traces of ten spans: six chats, three tools, one agent.

    Args:
        seed: Of all ids and texts.
        text_bytes: Size of the message that each chat has.
    """

    def __init__(self, seed: int, text_bytes: int) -> None:
        self._rng = random.Random(seed)
        self._texts, self._size = Texts(self._rng), text_bytes
        self._models = [self._span(number) for number in range(_PER_TRACE)]

    def make(self, first: int, count: int, start_ns: int, step_ns: int) -> bytes:
        """So many spans, the first with this number, one step after the other."""
        request = ExportTraceServiceRequest()
        spans = _group(request, PROMOTED)
        trace = parent = b""
        for number in range(first, first + count):
            place = number % _PER_TRACE
            is_rare = number % 250_000 == 3
            span = (_group(request, RARE) if is_rare else spans).add()
            span.CopyFrom(self._models[place])
            span.span_id = self._rng.randbytes(8)
            if place == 0 or not trace:
                trace, parent = self._rng.randbytes(16), span.span_id
            else:
                span.parent_span_id = parent
            span.trace_id = trace
            span.start_time_unix_nano = start_ns + (number - first) * step_ns
            span.end_time_unix_nano = span.start_time_unix_nano + (number % 997) * 10**6
            values = [each.value for each in span.attributes]
            values[0].string_value = trace.hex()
            values[1].string_value = span.span_id.hex()
            values[2].string_value = f"tenant-{number // _PER_TRACE % 50_000}"
            if place in range(1, 7):
                values[3].string_value = self._texts(self._size)
            if number % 1000 == 7:
                span.attributes.add(key="error.type").value.string_value = "Timeout"
                span.status.code = 2  # type: ignore[assignment]
            if is_rare:
                span.name = "rare step"
                for key in PROMOTED.keys() - _OF_RESOURCES:
                    span.attributes.add(key=key).value.string_value = RARE[key]
        return request.SerializeToString()

    def _span(self, place: int) -> ProtoSpan:
        span = ProtoSpan(kind=3)  # type: ignore[arg-type]
        texts = {"gen_ai.conversation.id": "", "gen_ai.response.id": "", "app.tenant": ""}
        numbers: dict[str, int] = {}
        if place == 0:
            span.name = "invoke_agent shop"
            texts |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}
        elif place < 7:
            span.name = f"chat model-{place}"
            texts |= {
                "gen_ai.input.messages": "",
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": f"model-{place}",
                "gen_ai.response.model": f"model-{place}-2026",
            }
            numbers = {"gen_ai.usage.input_tokens": 900 + place, "gen_ai.usage.output_tokens": 70}
        else:
            span.name = f"execute_tool tool-{place}"
            texts |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"tool-{place}"}
        for key, text in texts.items():
            span.attributes.add(key=key).value.string_value = text
        for key, number in numbers.items():
            span.attributes.add(key=key).value.int_value = number
        span.attributes.add(key="session.id").value.string_value = PROMOTED["session.id"]
        return span


PROMOTED: Final[Mapping[str, str]] = {
    "service.name": "shop",
    "service.version": "1.4.0",
    "deployment.environment.name": "production",
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "model-3",
    "gen_ai.response.model": "model-3-2026",
    "gen_ai.agent.name": "shop",
    "gen_ai.tool.name": "tool-7",
    "error.type": "Timeout",
    "session.id": "the one session",
}
"""Attributes with a column of their own, and a value that many spans have. The conversation, too,
has a column: another value in each trace."""
RARE: Final[Mapping[str, str]] = {key: f"rare {key}" for key in PROMOTED}
"""Values of one span in 250,000."""
_OF_RESOURCES: Final = frozenset(("service.name", "service.version", "deployment.environment.name"))


def _parameter(key: str) -> str:
    """The query parameter of a promoted attribute."""
    name = key.removeprefix("gen_ai.").removesuffix(".name")
    renamed = {"service": "service_name", "deployment.environment": "environment",
               "agent": "agent_name", "tool": "tool_name"}  # fmt: skip
    return renamed.get(name, name.replace(".", "_"))


def _group(request: ExportTraceServiceRequest, values: Mapping[str, str]) -> Any:
    """The spans of a new resource with such values."""
    group = request.resource_spans.add()
    for key in sorted(_OF_RESOURCES):
        group.resource.attributes.add(key=key).value.string_value = values[key]
    return group.scope_spans.add().spans


def fill(
    folder: Path, spans: int, evaluations: int, now_ns: int, *, has_records: bool = False
) -> None:
    """Store spans of one day, and evaluations on their traces of the same times.

    Args:
        folder: Of a new store.
        spans: How many.
        evaluations: About how many.
        now_ns: End of the day.
        has_records: The evaluated records are stored, too.
    """
    with closing(AppendingStore(folder)) as store:
        fill_store(store, spans, evaluations, now_ns, has_records=has_records)
        store.add_up()  # as a collector does every ten minutes of such a day


def fill_store(
    store: Store,
    spans: int,
    evaluations: int,
    now_ns: int,
    *,
    has_records: bool = False,
    commit_spans: int = _COMMIT,
    period_ns: int = _DAY_NS,
    first_number: int = 0,
) -> None:
    """The same for a store that is open; no record waits.

    Args:
        store: Is open.
        spans: How many.
        evaluations: About how many.
        now_ns: End of the period.
        has_records: The evaluated records are stored, too.
        commit_spans: Spans of a commit.
        period_ns: The time that all of it came in.
        first_number: Of the evaluations.
    """
    requests, batch = Requests(1, _STORED_TEXT), min(_BATCH, commit_spans)
    step_ns = period_ns // spans
    traces_of_all = max(1, spans // _PER_TRACE)
    times = max(2, evaluations // traces_of_all)
    every = max(1, traces_of_all * times // evaluations)
    done, commit, read = first_number, Commit(), Prepared()
    with ThreadPoolExecutor(1) as pool:
        registry, limits, on_its_way = ProfileRegistry(store), Limits(), pool.submit(int)
        for first in range(0, spans, batch):
            start_ns = now_ns - period_ns + first * step_ns
            body = requests.make(first, batch, start_ns, step_ns)
            item = Item(Kind.SPANS, "default", start_ns, body)
            contents = read_entry(Entry(first, first + 1, item), registry, limits)
            read.add(contents)
            traces = [each.span.trace_id for each in contents.spans[:: _PER_TRACE * every]]
            rows = [_evaluation(done + n, each, start_ns) for n, each in enumerate(traces * times)]
            done += len(rows)
            commit.evaluations += rows
            commit.records += map(_record, rows if has_records else ())
            if (first + batch) % commit_spans == 0 or first + batch >= spans:
                read.settle(store, None)
                read.fill(commit)
                commit.low_seq = on_its_way.result() + 1
                on_its_way = pool.submit(store.commit, commit)
                commit, read = Commit(), Prepared()
        on_its_way.result()


@cache
def profile_of(alias: str) -> AgentEvalProfile:
    """The profile behind the stored evaluations of an alias."""
    tasks = [AssertionTask(each, "answer.text", "answer", Op.StartsWith) for each in TASKS]
    return AgentEvalProfile(alias=alias, tasks=tasks)


def _evaluation(number: int, trace_id: str, at_ns: int) -> EvaluationRow:
    is_bad = number // len(PROFILES) % 10 == 3  # of every profile a tenth
    outcome = Outcome.FAILED if is_bad else Outcome.PASSED
    message = f"answer {number} of {trace_id} was looked at"
    shop = PROFILES[number % len(PROFILES)]
    profile = profile_of(shop)
    return EvaluationRow(
        space="default", evaluation_id=f"e{number}", record_uid=f"u{number}",
        record_id=f"r{number}", session_id=f"s{number // 5}", trace_id=trace_id,
        profile_uid=profile.uid, profile_digest=profile.digest, profile_name=profile.name,
        alias=shop, outcome=outcome,
        completeness=Completeness.COMPLETE, reads_spans=True, service_name="shop",
        service_version="1.4.0", created_ns=at_ns, evaluated_ns=at_ns, input_seq=2**60,
        tasks=tuple(
            TaskRow(task_id=task, task_type="Assertion", outcome=outcome, message=message)
            for task in TASKS
        ),
    )  # fmt: skip


def _record(row: EvaluationRow) -> RecordRow:
    """The record that an evaluation is about."""
    return RecordRow(
        space=row.space, uid=row.record_uid, digest=row.record_uid, profile_ref=row.alias,
        profile_name=row.alias, alias=row.alias, record_id=row.record_id,
        session_id=row.session_id, trace_id=row.trace_id, created_ns=row.created_ns,
        received_ns=row.created_ns, context={"answer": {"text": row.tasks[0].message}},
    )  # fmt: skip


def write(address: str, rate: int, told: Any) -> None:
    """Send spans at a rate until told to end; what was late is made up for, but of one second only.

    Else a slow question would be followed by all that the collector can take.
    """
    requests = Requests(random.SystemRandom().getrandbits(60), _LIVE_TEXT)
    connection = http.client.HTTPConnection(address, timeout=60)
    due = time.monotonic()
    while not told.wait(max(0.0, due - time.monotonic())):
        body = requests.make(_PER_TRACE, _BATCH, time.time_ns(), 1000)  # none of the rare
        status = _post(connection, _TRACES, "application/x-protobuf", body)
        assert status in (200, 429, 503), status
        due = max(due, time.monotonic() - 1.0) + _BATCH / rate


def _post(connection: http.client.HTTPConnection, path: str, media: str, body: bytes) -> int:
    connection.request("POST", path, body, {"content-type": media})
    answer = connection.getresponse()
    answer.read()
    return answer.status


class Asker:
    """Asks a collector, and takes the time."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=120)

    def __call__(self, path: str, **query: str | int) -> tuple[Any, float]:
        """The answer, and the seconds that it took."""
        began = time.perf_counter()
        whole = path if path.startswith("/") else f"/api/v1/{path}"
        self._connection.request("GET", f"{whole}?{urlencode(query)}")
        answer = self._connection.getresponse()
        text = answer.read()
        took = time.perf_counter() - began
        assert answer.status == 200, text
        return json.loads(text), took


Question = tuple[str, Callable[[int], tuple[str, dict[str, str | int]]], str]
"""Name, path and query by number, and how many items are expected: `some`, `none` or `all`."""
_KINDS: Final = ("common", "rare", "absent")
MOST_MS: Final = {
    "one trace": 5,
    "attribute": 1000,
    "attribute, one span": 1000,
    "attribute, absent": 1000,
    "traces by text, absent": 1500,
    **dict.fromkeys(
        (
            "name, common", "name, rare", "name, absent", "conversation_id",
            "conversation_id, absent", "status error and name", "attribute, an hour",
            "attribute, an hour, absent", "traces by name", "traces by conversation",
            "traces by error_type", "traces by agent and tool", "tasks",
            "task series, a day by hours",
            *(f"{_parameter(key)}, {kind}" for key in PROMOTED for kind in _KINDS),
        ),
        50,
    ),
}  # fmt: skip
"""Bounds of the questions that have one, of the median."""
_PROBE: Final[Question] = ("/healthz, nothing asked", lambda _: ("/healthz", {}), "all")


def questions(rng: random.Random, samples: Sequence[dict[str, Any]], now_ns: int) -> list[Question]:
    """The questions; their values are those of stored spans where there are several."""

    def sample() -> dict[str, Any]:
        return rng.choice(samples)

    def spans(**query: str | int) -> tuple[str, dict[str, str | int]]:
        return "spans", query

    def hour(**query: str | int) -> tuple[str, dict[str, str | int]]:
        since = now_ns - rng.randrange(2 * _HOUR_NS, _DAY_NS)
        return "spans", {**query, "since": since, "until": since + _HOUR_NS}

    def promoted(key: str, value: str) -> Iterator[Question]:
        name = _parameter(key)
        yield f"{name}, common", lambda _: spans(**{name: value}), "some"
        yield f"{name}, rare", lambda _: spans(**{name: RARE[key]}), "some"
        yield f"{name}, absent", lambda n: spans(**{name: f"nobody {n}"}), "none"

    def of(key: str) -> str:
        return f"{key}={sample()[key]}"

    return [
        ("one trace", lambda _: (f"traces/{sample()['trace_id']}", {}), "some"),
        ("name, common", lambda n: spans(name=f"chat model-{n % 6 + 1}"), "some"),
        ("name, rare", lambda _: spans(name="rare step"), "some"),
        ("name, absent", lambda n: spans(name=f"nobody {n}"), "none"),
        *(question for key, value in PROMOTED.items() for question in promoted(key, value)),
        ("conversation_id", lambda _: spans(conversation_id=sample()["conversation_id"]), "some"),
        ("conversation_id, absent", lambda n: spans(conversation_id=f"c{n}"), "none"),
        ("status error and name", lambda _: spans(status="error", name="execute_tool tool-7"),
         "some"),
        ("attribute, an hour", lambda _: hour(attribute=of("app.tenant")), "all"),
        ("attribute, an hour, absent", lambda n: hour(attribute=f"app.tenant=nobody {n}"), "none"),
        ("attribute", lambda _: spans(attribute=of("app.tenant")), "some"),
        ("attribute, one span", lambda _: spans(attribute=of("gen_ai.response.id")), "some"),
        ("attribute, absent", lambda n: spans(attribute=f"app.tenant=nobody {n}"), "none"),
        ("traces by name", lambda n: ("traces", {"name": f"chat model-{n % 6 + 1}"}), "some"),
        ("traces by conversation",
         lambda _: ("traces", {"conversation_id": sample()["conversation_id"]}), "some"),
        ("traces by error_type", lambda _: ("traces", {"error_type": "Timeout"}), "some"),
        ("traces by agent and tool",
         lambda n: ("traces", {"agent_name": "shop", "tool_name": f"tool-{n % 3 + 7}"}), "some"),
        ("traces by tool and a rare service",
         lambda _: ("traces", {"service_name": RARE["service.name"], "tool_name": "tool-7"}),
         "some"),
        ("traces without a tool, absent",
         lambda _: ("traces", {"tool_name": "tool-7", "without_tool": "tool-8"}), "none"),
        ("traces by outcome", lambda _: ("traces", {"outcome": "failed"}), "some"),
        ("traces by text, absent", lambda n: ("traces", {"text": f"nobody {n}"}), "none"),
        ("usage by model, an hour",
         lambda _: ("genai/usage", {"group_by": "model", "since": now_ns - _HOUR_NS}), "all"),
        ("usage by model", lambda _: ("genai/usage", {"group_by": "model"}), "some"),
        ("a task and a rare record",
         lambda _: ("evaluations", {"task_id": "t0", "record_id": f"r{rng.randrange(2000)}"}),
         "some"),
        ("evaluations of a session",
         lambda _: ("evaluations", {"session_id": f"s{rng.randrange(400)}"}), "some"),
        ("evaluations of a session, absent",
         lambda n: ("evaluations", {"session_id": f"nobody {n}"}), "none"),
        ("conservation", lambda _: ("conservation", {}), "all"),
        ("tasks", lambda _: ("tasks", {}), "some"),
        ("task series, a day by hours",
         lambda n: ("tasks/series", {
             "bucket": "1h", "since": now_ns - _DAY_NS, "profile": PROFILES[n % len(PROFILES)],
         }), "some"),
        ("all task series, a day by hours",
         lambda _: ("tasks/series", {"bucket": "1h", "since": now_ns - _DAY_NS}), "some"),
    ]  # fmt: skip


def samples_of(ask: Asker, count: int, now_ns: int) -> list[dict[str, Any]]:
    """Spans from all over the day, with the attributes that are asked for.

    Of the shop alone: a kept store may have a long trace of another service, without conversation.
    """
    service = PROMOTED["service.name"]
    found: list[dict[str, Any]] = []
    for n in range(count):
        until = now_ns - _DAY_NS + (n + 1) * _DAY_NS // (count + 1)
        page, _ = ask("spans", limit=1, until=until, operation="execute_tool", service_name=service)
        (item,) = page["items"]
        trace, _ = ask(f"traces/{item['trace_id']}")
        span = next(each for each in trace["spans"] if each["spanId"] == item["span_id"])
        texts = {each["key"]: each["value"].get("stringValue") for each in span["attributes"]}
        found.append({**texts, **item})
    return found


def measure(ask: Asker, question: Question, times: int) -> tuple[float, float]:
    """Ask a question many times; 50th and 95th percentile in ms."""
    name, make, expected = question
    took: list[float] = []
    for n in range(times):
        path, query = make(n)
        answer, seconds = ask(path, **query)
        items = answer.get("items", answer.get("spans"))
        assert expected == "all" or bool(items) is (expected == "some"), (name, query, answer)
        took.append(1e3 * seconds)
    return statistics.median(took), sorted(took)[int(0.95 * len(took))]


def long_trace(ask: Asker, address: str, spans: int) -> tuple[float, float]:
    """Send a trace with a record; seconds until its evaluation is seen, and for reading it."""
    requests = Requests(secrets.randbits(60), _LIVE_TEXT)
    connection = http.client.HTTPConnection(address, timeout=60)
    answer = {"text": "answer", "score": 7, "tags": ["a", "b", "c"]}
    record = {
        "uid": _LONG_TRACE, "profile": "bench", "trace_id": _LONG_TRACE,
        "context": {"answer": answer},
    }  # fmt: skip
    for first in range(0, spans, _BATCH):
        request = ExportTraceServiceRequest.FromString(
            requests.make(_PER_TRACE + 1, min(_BATCH, spans - first), time.time_ns(), 1000)
        )
        for span in request.resource_spans[0].scope_spans[0].spans:
            span.trace_id = bytes.fromhex(_LONG_TRACE)
        body = request.SerializeToString()
        assert _post(connection, _TRACES, "application/x-protobuf", body) == 200
    body = json.dumps({"records": [record]}).encode()
    began = time.perf_counter()
    assert _post(connection, "/v1/records", "application/json", body) == 200
    wait_until(
        lambda: ask("evaluations", trace_id=_LONG_TRACE)[0]["items"],
        what="an evaluation on the long trace",
        timeout_s=60,
        every_s=0.02,
    )
    judged = time.perf_counter() - began
    trace, read = ask(f"traces/{_LONG_TRACE}")
    assert (len(trace["spans"]), len(trace["evaluations"])) == (spans, 1)
    return judged, read


def run(folder: Path, options: argparse.Namespace, times: int, figures: Figures) -> Iterator[str]:
    """Start, ask, and tell line by line."""
    now_ns = int((folder / "now_ns").read_text())
    settle = ("--foreign-settle-s", "100ms")
    profile = make_profile().save_to_json(folder / "bench.json")
    collector = CollectorProgram(folder, *settle, "--profile", profile)
    collector.start()

    def accepted() -> int:
        return collector.get("/api/v1/conservation")["spans"]["accepted"]

    ended = multiprocessing.get_context("spawn").Event()
    writer = multiprocessing.get_context("spawn").Process(
        target=write, args=(collector.address, options.rate, ended)
    )
    try:
        ask = Asker(collector.address)
        samples = samples_of(ask, min(times, 50), now_ns)
        before = accepted()
        writer.start()
        wait_until(lambda: accepted() > before, what="the first spans")
        before, began = accepted(), time.monotonic()
        threading.Event().wait(0.1 if options.short else 5)
        yield f"{'':32} {'p50':>8} {'p95':>8}  ms"
        rng = random.Random(9)
        for question in (_PROBE, *questions(rng, samples, now_ns), _PROBE):
            p50, p95 = measure(ask, question, times)
            yield f"{question[0]:32} {p50:8.1f} {p95:8.1f}"
            figures.add(question[0], p50, "ms", at_most=MOST_MS.get(question[0]))
            figures.add(f"{question[0]}, p95", p95, "ms")
        judged, read = long_trace(ask, collector.address, options.long)
        yield f"a trace of {options.long:,} spans: judged in {judged:.2f} s, read in {read:.2f} s"
        came = accepted() - before - options.long
        peak = status_mb(process_id(collector), "VmHWM")
        rate = came / (time.monotonic() - began)
        yield f"meanwhile {rate:,.0f} spans/s came in; peak memory {peak:.0f} MB"
        figures.add("a long trace: judged", judged, "s")
        figures.add("a long trace: judged and read", judged + read, "s", at_most=1)
        # The rate that the writer was asked for, less its start.
        figures.add("came in meanwhile", rate, "spans/s", at_least=0.95 * options.rate)
        figures.add("peak memory", peak, "MB")
    finally:
        ended.set()
        if writer.pid is not None:
            writer.join()
        collector.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spans", type=int, default=5_000_000)
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=5_000, help="spans that come in per second")
    parser.add_argument("--long", type=int, default=10_000, help="spans of the long trace")
    parser.add_argument("--data", type=Path, help="folder of a store that is kept")
    parser.add_argument("--short", action="store_true", help="a small store")
    options = parser.parse_args()
    times = 100
    if options.short:
        options.spans, options.evaluations, options.rate, options.long, times = (
            20_000, 2_000, 1_000, 1_000, 3,
        )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="scouter-api-") as name:
        folder = options.data or Path(name)
        if not (folder / "now_ns").exists():
            began, now_ns = time.perf_counter(), time.time_ns()
            fill(folder / "data", options.spans, options.evaluations, now_ns)
            (folder / "now_ns").write_text(str(now_ns))
            print(f"stored in {time.perf_counter() - began:.0f} s", flush=True)
        figures = Figures("api", is_short=options.short)
        for line in run(folder, options, times, figures):
            print(line, flush=True)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
