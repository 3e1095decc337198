"""A process with log, worker and store, which tests kill.

`python -m tests.support.worker_program serve FOLDER` takes items by a socket, whose port it writes
into FOLDER/port, and answers once an item is durable; `STATUS` is answered by whether something is
left to do. A record whose context names a bomb ends it as it is judged, and an item with the bytes
`bomb in a request` as it is read: as a fault in a library's C code would.

`python -m tests.support.worker_program steps FOLDER N` appends the same items each time, and ends
itself at the N-th step between append, commit and trim; 0 for none. It goes on where an earlier
process has left its folder, and writes FOLDER/end.json with what it has stored at the end.
"""

import json
import os
import signal
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from collector.items.limits import Limits
from collector.log.file_log import FileLog
from collector.log.port import Chunk, Entry, Item, Kind
from collector.store.commit import Commit
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.file_store import FileStore
from collector.store.rows import EvaluationRow
from collector.worker import judge as judge_module
from collector.worker import read as read_module
from collector.worker.open_trace import JoinTimes
from collector.worker.profiles import ProfileRegistry
from collector.worker.ready import Ready
from collector.worker.take import Contents
from collector.worker.worker import Worker
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch
from scouter.errors import TransientError
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from tests.support.worker_room import (
    SECOND_NS,
    SPACE,
    START_NS,
    record,
    registry_of,
    span,
    trace_id,
)

SPANS_PER_TRACE: Final = 4
WATCHED_SPACE: Final = "seen"
_HEAD: Final = struct.Struct("<BHI")
"""Kind, bytes of the space's name, bytes of the body."""
STATUS: Final = _HEAD.pack(0, 0, 0)
"""Question whether something is left to do; the answer is 0 or 1."""
_WHOLE: Final = TraceAssertionTask(
    "whole", TraceAssertion.trace_span_count(), SPANS_PER_TRACE, Op.Equals
)
PROFILES: Final = {
    SPACE: [
        AgentEvalProfile([AssertionTask("right", "answer", 42, Op.Equals)], alias="right"),
        AgentEvalProfile([_WHOLE, AssertionTask("right", "answer", 42, Op.Equals)], alias="traced"),
    ],
    WATCHED_SPACE: [
        AgentEvalProfile([_WHOLE], alias="desk", watch=Watch(match=WatchMatch(service="desk")))
    ],
}
TIMES: Final = JoinTimes(settle_s=0.1, foreign_settle_s=60, quiet_s=60, deadline_s=120)
Request = tuple[Kind, str, bytes]
"""Kind, space and body of an item."""


def answer_of(number: int) -> int:
    """The answer of a numbered record: every third one is wrong."""
    return 42 if number % 3 else 41


def requests_of(number: int) -> list[Request]:
    """Everything about one number: two records, one with a trace, and a trace without a record.

    Every span is stamped, so that only a whole trace is complete.
    """
    answer = answer_of(number)
    records = [
        record(f"r{number}", "right", answer=answer),
        record(f"t{number}", "traced", number, answer=answer),
    ]
    found: list[Request] = [(Kind.RECORDS, SPACE, json.dumps({"records": records}).encode())]
    for space in (SPACE, WATCHED_SPACE):
        spans = _trace(number)
        found += [(Kind.SPANS, space, _body(spans[:2])), (Kind.SPANS, space, _body(spans[2:]))]
    return found


def bomb_in_a_trace() -> Request:
    """A watched trace whose question ends the process that judges its record."""
    question = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "bomb"}]}])
    root, *more = reversed(_trace(10**6))
    attributes = {**more[0].attributes, **root.attributes, "gen_ai.input.messages": question}
    return Kind.SPANS, WATCHED_SPACE, _body([*more, replace(root, attributes=attributes)])


def expected(number: int) -> dict[tuple[str, str], dict[str, str]]:
    """By space and uid the outcome of every task of a numbered record, worked out by hand."""
    right = "passed" if number % 3 else "failed"
    return {
        (SPACE, f"r{number}"): {"right": right},
        (SPACE, f"t{number}"): {"whole": "passed", "right": right},
        (WATCHED_SPACE, trace_id(number)): {"whole": "passed"},
    }


def stored(store: FileStore) -> dict[tuple[str, str], dict[str, str]]:
    """The same as the store has it; a derived record goes by its trace.

    Raises:
        AssertionError: A record has two evaluations.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for space in PROFILES:
        for row in _evaluations(store, space):
            uid = row.trace_id if space == WATCHED_SPACE and row.trace_id else row.record_uid
            assert (space, uid) not in found, f"{uid} was judged twice"
            found[space, uid] = {task.task_id: task.outcome.value for task in row.tasks}
    return found


def span_counts(store: FileStore) -> tuple[int, int, int]:
    """Rows of spans, their distinct keys, and the spans that are in bodies."""
    sql = "SELECT count(*), count(DISTINCT (space, trace_id, span_id)) FROM spans"
    ((rows, keys),) = store.read(sql)
    ((bodies,),) = store.read("SELECT coalesce(sum(spans), 0)::BIGINT FROM bodies")
    return rows, keys, bodies


def _evaluations(store: FileStore, space: str) -> Iterator[EvaluationRow]:
    query = EvaluationQuery(space=space, limit=1_000)
    while True:
        page = store.evaluations(query)
        yield from page.items
        if page.next_before is None:
            return
        query = replace(query, before=page.next_before, as_of=page.as_of)


def _trace(number: int) -> list[Span]:
    of = {PROCESS_ID: "p"}
    root = span(number, 0, attributes={PROCESS_SPAN_COUNT: SPANS_PER_TRACE}, resource=of)
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
    more = [span(number, at, 0, attributes=agent, resource=of) for at in range(1, SPANS_PER_TRACE)]
    return [*more, root]


def _body(spans: Sequence[Span]) -> bytes:
    return encode_request(spans).SerializeToString()


# --- by a socket ---------------------------------------------------------------------------------


def pack(request: Request) -> bytes:
    """Write a request for the socket."""
    kind, space, body = request
    name = space.encode()
    return _HEAD.pack(kind, len(name), len(body)) + name + body


class _Handler(socketserver.StreamRequestHandler):
    """Takes one item after the other of a connection."""

    def handle(self) -> None:
        """Answer each once it is durable, or that it is not."""
        while head := self.rfile.read(_HEAD.size):
            kind, name, size = _HEAD.unpack(head)
            if head == STATUS:
                self.wfile.write(b"0" if _of(self.server).worker.is_idle else b"1")
                continue
            space, body = self.rfile.read(name).decode(), self.rfile.read(size)
            item = Item(kind=Kind(kind), space=space, received_ns=time.time_ns(), body=body)
            try:
                _of(self.server).log.append(item).result(120)
            except TransientError:
                self.wfile.write(b"0")
            else:
                self.wfile.write(b"1")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, log: FileLog, worker: Worker) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.log, self.worker = log, worker


def _of(server: object) -> _Server:
    assert isinstance(server, _Server)
    return server


def serve(folder: Path) -> None:
    """Take items until the process is ended."""
    _plant()
    store = FileStore(folder)
    log = FileLog(folder / "log", store.offset, segment_bytes=2**16)
    worker = Worker(log, store, registry_of(PROFILES), TIMES)
    worker.start()
    with _Server(log, worker) as server:
        partial = folder / "port.partial"
        partial.write_text(f"{os.getpid()} {server.server_address[1]}")
        partial.rename(folder / "port")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        signal.sigwait({signal.SIGTERM})


def _plant() -> None:
    judge, read_entry = judge_module.judge, read_module.read_entry

    def fatal_judge(items: Sequence[Ready], *args: Any, **more: Any) -> list[EvaluationRow]:
        for ready in items:
            if "bomb" in repr(ready.record.context):
                os._exit(70)
        return judge(items, *args, **more)

    def fatal_read(entry: Entry, registry: ProfileRegistry, limits: Limits) -> Contents:
        if b"bomb in a request" in bytes(entry.item.body):
            os._exit(70)
        return read_entry(entry, registry, limits)

    judge_module.judge, read_module.read_entry = fatal_judge, fatal_read


# --- step by step --------------------------------------------------------------------------------


class _Steps:
    """Counts steps, and ends the process at one of them."""

    def __init__(self, last: int) -> None:
        self.count, self._last = 0, last
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.count += 1
            if self.count == self._last:
                os._exit(71)


class _StepLog(FileLog):
    steps: _Steps

    def append(self, item: Item) -> "Future[int]":
        self.steps()
        future = super().append(item)
        future.result(120)
        self.steps()
        return future

    def read(self, offset: int, max_bytes: int) -> Chunk:
        self.steps()
        return super().read(offset, max_bytes)

    def trim(self, offset: int) -> None:
        self.steps()
        super().trim(offset)
        self.steps()


class _StepStore(FileStore):
    steps: _Steps

    def commit(self, rows: Commit) -> int:
        self.steps()
        seq = super().commit(rows)
        self.steps()
        return seq


def step_by_step(folder: Path, last: int) -> None:
    """Append what was not acknowledged yet, with turns of the worker between, and write the end."""
    steps = _Steps(last)
    store = _StepStore(folder)
    store.steps = steps
    log = _StepLog(folder / "log", store.offset, segment_bytes=2**11)
    log.steps = steps
    now_ns = START_NS
    worker = Worker(log, store, registry_of(PROFILES), TIMES, now_ns=lambda: now_ns)
    acknowledged = folder / "acknowledged"
    begun = len(acknowledged.read_bytes()) if acknowledged.exists() else 0
    requests = [each for number in range(4) for each in requests_of(number)]
    with acknowledged.open("ab", buffering=0) as file:
        for at, (kind, space, body) in enumerate(requests[begun:], start=begun):
            now_ns += SECOND_NS // 20
            log.append(Item(kind=kind, space=space, received_ns=now_ns, body=body))
            file.write(b".")
            if at % 3 == 2:
                worker.turn(0.0)
    for _ in range(20):
        now_ns += SECOND_NS // 2
        while worker.turn(0.0):
            pass
    worker.stop()
    end = {
        "steps": steps.count,
        "stored": sorted((*key, tasks) for key, tasks in stored(store).items()),
        "spans": span_counts(store),
        "waiting": worker.waiting,
        "unread": log.end - store.offset,
        "needed": store.last_seq() + 1 - store.low_seq,
    }
    log.close()
    store.close()
    (folder / "end.json").write_text(json.dumps(end))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(Path(sys.argv[2]))
    else:
        step_by_step(Path(sys.argv[2]), int(sys.argv[3]))
