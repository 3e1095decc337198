"""Spans from files: OTLP requests as SDKs and the OpenTelemetry Collector write them.

A file is known by its content, never by its name: protobuf or JSON, traces or logs, one request or
many (JSON lines, JSON texts one behind the other, messages behind their length as the Collector's
file exporter writes them), plain, gzip or zstd; or the spans that a collector wrote as Parquet.

Source: OTLP specification 1.x; opentelemetry-collector-contrib, `exporter/fileexporter`.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from scouter.errors import ConfigError, DataError, FileFormatError
from scouter.evaluate.files.json_documents import json_documents
from scouter.evaluate.files.read import MAX_BYTES
from scouter.evaluate.spans.parquet import MAGIC, parquet_spans
from scouter.model.log_event import attach_events, is_evidence
from scouter.model.otlp import decode_request
from scouter.model.otlp_json import DecodedSpans, spans_from_otlp_json
from scouter.model.otlp_logs import decode_logs, logs_from_otlp_json
from scouter.model.span import Span

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_STEP: Final = 1 << 20
"""Bytes that are read at a time."""
_ZSTD_STEP: Final = 1024
"""Bytes that are decompressed at a time: they can become 32 MiB."""
_BOM: Final = b"\xef\xbb\xbf"
_SIZE_BYTES: Final = 4
_EXPECTED: Final = (
    "an OTLP trace or log request: protobuf, JSON, JSON lines, or what the OpenTelemetry "
    "Collector's file exporter writes"
)
_SHOWN: Final = 20
"""Faults that an error's text names."""


class SpanFilesError(ConfigError):
    """Something in files of spans could not be read.

    Args:
        faults: All of them, in the order of the files.
    """

    def __init__(self, faults: tuple[FileFormatError, ...]) -> None:
        super().__init__(faults)
        self.faults = faults

    def __str__(self) -> str:
        lines = [str(fault) for fault in self.faults[:_SHOWN]]
        left = len(self.faults) - len(lines)
        if left:
            lines.append(f"and {left} more")
        return "\n".join(lines)


def read_spans(
    *paths: str | Path,
    on_error: Callable[[FileFormatError], None] | None = None,
    with_results: bool = False,
) -> tuple[Span, ...]:
    """Read the spans of OTLP files, or of Parquet files that a collector wrote.

    Log events become events of the spans they belong to. Those that are results of evaluators are
    left out, unless they are requested: they are no evidence.

    Args:
        paths: Files of traces and of logs, in any order: a span and its log events may be in
            different ones.
        on_error: Called with each fault, such as one bad line; all else is read. Without it the
            first look goes over everything, and then all faults are raised together.
        with_results: Also log events that are results of evaluators.

    Returns:
        Every span, in the order of files and lines. One that comes twice is there twice:
        whatever judges spans knows it again.

    Raises:
        SpanFilesError: Without `on_error`, after the last file, if anything could not be read: a
            file, a line, a span; or if the span of a log event is missing from its trace.

    Cost: linear; a request is in memory as a whole, a file has 256 MiB at most, but for Parquet.
    """
    faults: list[FileFormatError] = []
    tell = on_error or faults.append
    found: list[Span] = []
    for path in paths:
        read = _SpanFile(str(path), tell).read()
        found += read if with_results else filter(is_evidence, read)
    spans, strays = attach_events(found)
    traces = {span.trace_id for span in spans}
    for event in strays:
        if event.trace_id in traces:  # else its whole trace is elsewhere, or was not sampled
            problem = (
                f"the log event {event.name} of the trace {event.trace_id} belongs to the span "
                f"{event.parent_span_id}, which is in none of the files"
            )
            tell(FileFormatError(", ".join(map(str, paths)), problem, expected="that span, too"))
    if faults:
        raise SpanFilesError(tuple(faults))
    return tuple(spans)


class _SpanFile:
    """One file, read to its end whatever is in it."""

    def __init__(self, path: str, tell: Callable[[FileFormatError], None]) -> None:
        self._path, self._tell = path, tell

    def read(self) -> list[Span]:
        try:
            with Path(self._path).open("rb") as file:
                if file.read(len(MAGIC)) == MAGIC:
                    return self._parquet()
                file.seek(0)
                data = file.read()
        except OSError as error:
            self._fault(error.strerror or str(error), expected="a file that can be read")
            return []
        return self._read(data, "")

    def _parquet(self) -> list[Span]:
        found: list[Span] = []
        try:
            found.extend(parquet_spans(Path(self._path)))
        except DataError as error:
            self._fault(str(error), expected="a file of spans, as a collector exports it")
        return found

    def _read(self, data: bytes, where: str) -> list[Span]:
        """Read what a file holds, or one message of it; `where` says which."""
        try:
            data, problem = inflated(data)
        except DataError as error:
            self._fault(f"{where}{error}")
            return []
        if problem:
            self._fault(f"{where}{problem}")
        messages, end = ([], 0) if where else _messages(data)
        if messages:
            if end < len(data):
                self._fault(f"the message at byte {end} is cut off; not read: all from there on")
            return [
                span
                for at, message in messages
                for span in self._read(message, f"the message at byte {at}: ")
            ]
        if (decoded := _of_protobuf(data)) is not None:
            return self._accepted(decoded, where)
        if data.removeprefix(_BOM).lstrip()[:1] in (b"{", b"["):
            return self._json(data.removeprefix(_BOM), where)
        what = "the file is empty" if not data.strip() else f"{where}neither protobuf nor JSON"
        self._fault(what, expected=_EXPECTED)
        return []

    def _json(self, data: bytes, where: str) -> list[Span]:
        text = data.decode("utf-8", "surrogateescape")
        found: list[Span] = []
        for line, value in json_documents(text):
            if isinstance(value, Exception):
                self._fault(f"{where}not JSON: {value}", line)
                continue
            try:
                for decoded in _of_json(value):
                    found += self._accepted(decoded, where, line)
            except (DataError, RecursionError) as error:
                self._fault(f"{where}{error}", line, _EXPECTED)
        return found

    def _accepted(self, decoded: DecodedSpans, where: str, line: int | None = None) -> list[Span]:
        for index, problem in decoded.rejected:
            self._fault(f"{where}item {index}: {problem}", line)
        return decoded.spans

    def _fault(self, problem: str, line: int | None = None, expected: str | None = None) -> None:
        self._tell(FileFormatError(self._path, problem, line, expected=expected))


def inflated(data: bytes) -> tuple[bytes, str]:
    """Undo gzip or zstd; of a file that was cut off, all before.

    Returns:
        The content, and in words that it was cut off; else an empty text.

    Raises:
        DataError: The content is broken, or holds more than a file may.
    """
    if data.startswith(_GZIP):
        inflated, is_cut = _of_gzip(data)
    elif data.startswith(_ZSTD):
        inflated, is_cut = _of_zstd(data)
    else:
        inflated, is_cut = data, False
    if len(inflated) > MAX_BYTES:
        raise DataError(f"more than {MAX_BYTES} bytes; split the file")
    return inflated, "the compressed file is cut off; not read: what is missing" * is_cut


def _of_gzip(data: bytes) -> tuple[bytes, bool]:
    found = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while len(found) <= MAX_BYTES and (part := file.read1(_STEP)):
                found += part
    except EOFError:
        if found:
            return bytes(found), True
        raise DataError("broken gzip: it ends too early") from None
    except (OSError, zlib.error) as error:
        raise DataError(f"broken gzip: {error}") from error
    return bytes(found), False


def _of_zstd(data: bytes) -> tuple[bytes, bool]:
    try:
        import zstandard  # few files need it
    except ImportError as error:
        raise DataError("zstd: pip install zstandard, or decompress the file") from error
    found = bytearray()
    at = 0
    try:
        while at < len(data):
            frame = zstandard.ZstdDecompressor().decompressobj()
            while not frame.eof and at < len(data) and len(found) <= MAX_BYTES:
                found += frame.decompress(data[at : at + _ZSTD_STEP])
                at += _ZSTD_STEP
            if not frame.eof:
                if found:
                    return bytes(found), True
                raise DataError("broken zstd: it ends too early")
            at = min(at, len(data)) - len(frame.unused_data)
    except zstandard.ZstdError as error:
        raise DataError(f"broken zstd: {error}") from error
    return bytes(found), False


def _messages(data: bytes) -> tuple[list[tuple[int, bytes]], int]:
    """The messages of a file that has the length of each before it, and where they begin and end.

    None where the first length leads beyond the file: it is something else.
    """
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        begin = at + _SIZE_BYTES
        end = begin + int.from_bytes(data[at:begin], "big")
        if end > len(data) or end == begin:
            break
        found.append((at, data[begin:end]))
        at = end
    return found, at


def _of_protobuf(data: bytes) -> DecodedSpans | None:
    """Read a request of traces or of logs; None where the bytes hold neither.

    The two have one frame, and each parser passes over what it does not know: a request is one of
    traces if an item has the ids of a span, and one of logs otherwise.
    """
    try:
        traces = ExportTraceServiceRequest.FromString(data)
    except (DecodeError, RecursionError):
        pass
    else:
        scopes = [scope for group in traces.resource_spans for scope in group.scope_spans]
        if any(
            len(s.trace_id) == 16 and len(s.span_id) == 8 for each in scopes for s in each.spans
        ):
            return decode_request(traces)
    try:
        logs = ExportLogsServiceRequest.FromString(data)
    except (DecodeError, RecursionError):
        return None
    records = [
        log for group in logs.resource_logs for each in group.scope_logs for log in each.log_records
    ]
    return decode_logs(logs) if any(log.ListFields() for log in records) else None


def _of_json(value: object) -> Iterator[DecodedSpans]:
    """Read one JSON text: a request of any signal, or spans as the API gives them."""
    if not isinstance(value, Mapping):
        yield spans_from_otlp_json(value)
        return
    request = cast("Mapping[str, object]", value)
    if "resourceLogs" in request:
        yield logs_from_otlp_json(request)
    if "resourceSpans" in request or not {"resourceLogs", "resourceMetrics"} & request.keys():
        yield spans_from_otlp_json(request)
