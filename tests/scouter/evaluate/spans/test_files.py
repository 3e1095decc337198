"""Spans and log events of files, in every form that senders write."""

import gzip
import json
import struct
from pathlib import Path

import pytest
import zstandard
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from scouter.errors import FileFormatError
from scouter.evaluate import SpanFilesError, read_spans
from scouter.model.otlp import encode_request
from scouter.model.otlp_json import spans_to_otlp_json
from scouter.model.span import Span, SpanEvent
from tests.scouter.evaluate.spans_support import TRACE, span

CHAT = span(1, "chat", at=(0, 10))
TOOL = span(2, "get_weather", parent=1, at=(2, 3))


def traces(*spans: Span) -> bytes:
    return encode_request(spans).SerializeToString()


def trace_line(*spans: Span) -> str:
    return json.dumps(spans_to_otlp_json(spans))


def event_log(text: str, *, at_ns: int = 5, span_id: int = 1, trace: str = TRACE) -> LogRecord:
    """As opentelemetry-instrumentation-openai-v2 writes it: a body that is an object."""
    said = KeyValueList(values=[KeyValue(key="content", value=AnyValue(string_value=text))])
    return LogRecord(
        event_name="gen_ai.user.message",
        observed_time_unix_nano=at_ns,
        trace_id=bytes.fromhex(trace),
        span_id=span_id.to_bytes(8, "big"),
        attributes=[KeyValue(key="gen_ai.system", value=AnyValue(string_value="openai"))],
        body=AnyValue(kvlist_value=said),
    )


def logs(*records: LogRecord) -> bytes:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.extend(records)
    return request.SerializeToString()


def log_line(*records: dict[str, object]) -> str:
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]})


JSON_LOG: dict[str, object] = {
    "attributes": [
        {"key": "event.name", "value": {"stringValue": "gen_ai.choice"}},
        {"key": "index", "value": {"intValue": "0"}},
    ],
    "observedTimeUnixNano": "7",
    "traceId": TRACE.upper(),
    "spanId": "0000000000000001",
    "body": {"stringValue": "Canberra"},
}


def written(folder: Path, **files: bytes | str) -> list[Path]:
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(traces(CHAT, TOOL), id="protobuf"),
        pytest.param(traces(CHAT) + traces(TOOL), id="two-protobuf-requests"),
        pytest.param(gzip.compress(traces(CHAT, TOOL)), id="gzip"),
        pytest.param(zstandard.compress(traces(CHAT, TOOL)), id="zstd"),
        pytest.param(trace_line(CHAT, TOOL), id="json"),
        pytest.param("\ufeff" + trace_line(CHAT, TOOL), id="json-with-mark"),
        pytest.param(json.dumps(spans_to_otlp_json([CHAT, TOOL]), indent=2), id="pretty-json"),
        pytest.param(f"{trace_line(CHAT)}\n\n{trace_line(TOOL)}\r\n", id="json-lines"),
        pytest.param(
            f'{trace_line(CHAT)}\n{{"resourceMetrics": []}}\n{trace_line(TOOL)}', id="with-metrics"
        ),
        pytest.param(
            b"".join(struct.pack(">I", len(each)) + each for each in (traces(CHAT), traces(TOOL))),
            id="collector-protobuf",
        ),
        pytest.param(
            b"".join(
                struct.pack(">I", len(each)) + each
                for each in (
                    zstandard.compress(trace_line(CHAT).encode()),
                    zstandard.compress(trace_line(TOOL).encode()),
                )
            ),
            id="collector-zstd",
        ),
    ],
)
def test_every_form_is_recognised_by_its_content(tmp_path: Path, content: bytes | str) -> None:
    """The file's name says nothing; all forms give the same spans."""
    assert read_spans(*written(tmp_path, **{"any.txt": content})) == (CHAT, TOOL)


def test_log_events_become_events_of_their_spans(tmp_path: Path) -> None:
    """Attributes, then the body's items, in order of time; also from another file, and twice."""
    paths = written(
        tmp_path,
        logs=logs(event_log("Capital of Australia?")) + logs(event_log("Capital of Australia?")),
        more=log_line(JSON_LOG),
        spans=traces(CHAT, TOOL),
    )

    chat, tool = read_spans(*paths)

    assert tool == TOOL
    assert chat.events == (
        SpanEvent(
            name="gen_ai.user.message",
            time_ns=5,
            attributes={"gen_ai.system": "openai", "content": "Capital of Australia?"},
        ),
        SpanEvent(name="gen_ai.choice", time_ns=7, attributes={"index": 0, "body": "Canberra"}),
    )


def test_logs_that_are_no_genai_events_are_passed_over(tmp_path: Path) -> None:
    """A record, an evaluator's result, a plain line, and an event outside of every span."""
    others: list[dict[str, object]] = [
        {"body": {"stringValue": "started"}},
        {**JSON_LOG, "attributes": [], "eventName": "scouter.eval_record"},
        {**JSON_LOG, "attributes": [], "eventName": "gen_ai.evaluation.result"},
        {**JSON_LOG, "traceId": "", "spanId": ""},
    ]
    assert read_spans(*written(tmp_path, a=traces(CHAT), b=log_line(*others))) == (CHAT,)


def test_one_bad_line_loses_no_other_and_all_faults_are_named(tmp_path: Path) -> None:
    """With `on_error` the rest is read; without it every fault is raised in the end."""
    bad_id = json.loads(trace_line(TOOL))
    bad_id["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = "xyz"
    lines = "\n".join([trace_line(CHAT), '{"resourceSpans": [', json.dumps(bad_id), "{}garbage",
                       trace_line(TOOL)])  # fmt: skip
    path, missing = *written(tmp_path, lines=lines), tmp_path / "none"
    faults: list[FileFormatError] = []

    assert read_spans(path, missing, on_error=faults.append) == (CHAT, TOOL)
    assert [(fault.path, fault.line) for fault in faults] == [
        (str(path), 2), (str(path), 3), (str(path), 4), (str(missing), None),
    ]  # fmt: skip

    with pytest.raises(SpanFilesError, match="traceId") as caught:
        read_spans(path, missing)
    assert list(map(str, caught.value.faults)) == list(map(str, faults))
    assert "No such file" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "the file is empty", id="empty"),
        pytest.param(b"hello", "neither protobuf nor JSON", id="text"),
        pytest.param(b"[1, 2]", "item 0", id="json-of-something-else"),
        pytest.param(b'{"a": 1}', "resourceSpans", id="object-of-something-else"),
        pytest.param(gzip.compress(traces(CHAT))[:9], "broken gzip", id="cut-gzip"),
        pytest.param(gzip.compress(b"x" * 99)[:-8] + b"y" * 8, "broken gzip", id="broken-gzip"),
        pytest.param(b"\x28\xb5\x2f\xfdxx", "broken zstd", id="broken-zstd"),
        pytest.param(b"[" * 100_000, "line 1", id="deep"),
        pytest.param(
            struct.pack(">I", 5) + b"hello", "the message at byte 0", id="message-of-something"
        ),
    ],
)
def test_what_is_no_file_of_spans_says_so(tmp_path: Path, content: bytes, says: str) -> None:
    """Nothing is taken for an empty trace."""
    with pytest.raises(SpanFilesError, match=says):
        read_spans(*written(tmp_path, file=content))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(gzip.compress(trace_line(CHAT).encode())[:-4], "cut off", id="gzip"),
        pytest.param(
            zstandard.compress(trace_line(CHAT).encode())
            + zstandard.compress(trace_line(TOOL).encode())[:9],
            "cut off", id="zstd",
        ),
        pytest.param(
            struct.pack(">I", len(traces(CHAT))) + traces(CHAT) + struct.pack(">I", 99) + b"x",
            f"the message at byte {4 + len(traces(CHAT))}", id="messages",
        ),
        pytest.param(
            trace_line(CHAT, TOOL).replace('"get_weather"', "?"), "column", id="bad-span",
        ),
        pytest.param(trace_line(CHAT, TOOL).partition("get_weather")[0], "cut", id="cut-span"),
    ],
)  # fmt: skip
def test_what_is_whole_in_a_broken_file_is_read(
    tmp_path: Path, content: bytes | str, says: str
) -> None:
    """The one fault names what is not read."""
    faults: list[FileFormatError] = []
    assert read_spans(*written(tmp_path, cut=content), on_error=faults.append) == (CHAT,)
    [fault] = faults
    assert says in str(fault)
    assert "cut" in str(fault) or "not read: the object" in str(fault)


def test_an_event_whose_span_is_missing_is_a_fault_where_its_trace_is_here(tmp_path: Path) -> None:
    """A trace that is in no file at all was not sampled, and nothing is judged on it."""
    other = "1" * 32
    paths = written(
        tmp_path, spans=traces(CHAT), logs=logs(event_log("a", span_id=9),
                                                event_log("b", trace=other))
    )  # fmt: skip
    with pytest.raises(SpanFilesError, match="belongs to the span 0000000000000009") as caught:
        read_spans(*paths)
    assert len(caught.value.faults) == 1


def test_halves_of_characters_are_repaired(tmp_path: Path) -> None:
    """JSON can spell a lone surrogate, which nothing behind can store."""
    log = {**JSON_LOG, "body": {"stringValue": "a\ud83dz"}}
    (chat,) = read_spans(*written(tmp_path, spans=traces(CHAT), logs=log_line(log)))
    assert chat.events[0].attributes["body"] == "a\ufffdz"
