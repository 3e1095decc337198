"""Erasing on a real store: what goes by a table written by hand, and every byte of it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from collector.metrics import TotalKey, TotalName
from collector.storage.care import maintenance
from collector.storage.care.check import check_store
from collector.storage.duckdb.store import DuckDBStore
from collector.storage.log.scrub import LogScrub, filler
from collector.storage.log.span_log import Frame, SpanLog
from collector.store.erase import EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.letter_search import LetterSearch
from collector.store.letters import LetterQuery
from collector.store.rows import Scope, TaskRow
from collector.store.task_counts import TaskQuery
from scouter.errors import TransientError
from scouter.evaluate.outcome import Outcome
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, Span
from tests.contracts.store_data import SPACE, evaluation, letter, record, span, spans
from tests.support.examples import examples
from tests.support.files import files_with

UIDS = ("a1", "a2", "b1", "b2", "c1", "w1")
SESSIONS = {"a1": "s1", "a2": "s1", "b1": "s2", "b2": "s2", "c1": "", "w1": "s3"}
TRACES = {"a1": 1, "a2": 2, "b1": 2, "b2": 3, "c1": 4, "w1": None}
USERS = {"a1": "ann", "a2": "ann", "b1": "bob", "b2": "bob", "c1": "cid", "w1": "ann"}
SPANS = {11: 1, 12: 1, 21: 2, 22: 2, 31: 3, 41: 4, 51: 5}
"""By number the trace; 21 and 51 say that they are of session s1, and trace 5 has no record."""
LETTERS = {
    "L1": b'{"session_id": "s1", "why": "%s"}',
    "L2": b'{"session_id": "s10", "why": "%s"}',
    "L4": b'{"records": [{"uid": "a1", "why": "%s"}]}',
    "L5": b'{"uid": "zz", "tags": {"user": "tag of ann"}, "why": "%s"}',
    "L6": b'{"uid": "a1", "cut off, why: %s',
}
"""Besides L3, a span of trace 1 as protobuf."""


def trace(n: int) -> str:
    return f"{n + 0xABCDEF0123456789ABCDEF:032x}"


def text(kind: str, name: object) -> str:
    """A text that nothing else holds."""
    return f"{kind}<{name}>{'zq' * 20}"


def stored_span(number: int) -> Span:
    attributes: dict[str, Any] = {"prompt": text("span", number)}
    if number in (21, 51):
        attributes["session.id"] = "s1"
    resource = Resource(attributes={"host.name": text("host of trace", SPANS[number])})
    return span(number, trace_id=trace(SPANS[number]), attributes=attributes, resource=resource)


def fill(store: DuckDBStore) -> None:
    """Records of three sessions; evaluations that read spans; c1 is a dead letter, w1 waits."""
    tagged = {uid: {"user": f"tag of {user}"} for uid, user in USERS.items()}
    rows = [
        record(
            uid, session_id=SESSIONS[uid], context={"q": text("context", uid)}, tags=tagged[uid],
            trace_id=None if (n := TRACES[uid]) is None else trace(n), received_ns=1,
        )
        for uid in UIDS
    ]  # fmt: skip
    for row in rows:
        store.append_records([row]).result()
    # One request with spans of several traces, one for each span, and all of them again.
    store.append_spans(SPACE, [stored_span(n) for n in (11, 21, 31)], 1).result()
    for number in SPANS:
        store.append_spans(SPACE, [stored_span(number)], 2).result()
    evaluations = [
        evaluation(
            row.uid, session_id=row.session_id, trace_id=row.trace_id, reads_spans=True,
            tags=row.tags, tasks=task(row.uid), evaluation_id=f"e-{row.uid}",
        )
        for row in rows[:4]
    ]  # fmt: skip
    evaluations += [
        evaluation(
            f"made of {name}", session_id=name, scope=Scope.SESSION, reads_spans=True,
            tasks=task(name), evaluation_id=f"e-{name}",
        )
        for name in ("s1", "s2")
    ]  # fmt: skip
    store.append_evaluations(evaluations).result()
    letters = [
        letter(payload=payload % text("letter", name).encode(), uid="", source=name)
        for name, payload in LETTERS.items()
    ]
    wire = encode_request([stored_span(11)]).SerializeToString()
    letters.append(letter(payload=wire, source="L3"))
    letters.append(letter(payload=b"", uid="c1", was_accepted=True, source="L7"))
    store.append_dead_letters(letters).result()
    store.checkpoint()


def task(name: str) -> tuple[TaskRow, ...]:
    return (
        TaskRow(
            task_id="t1", task_type="Assertion", outcome=Outcome.PASSED,
            expected=text("expected", name), actual=text("actual", name),
            message=text("message", name),
        ),
    )  # fmt: skip


class State(NamedTuple):
    """Everything that readers see, by name."""

    records: dict[str, Any]
    evaluations: dict[str, Any]
    spans: dict[int, Span]
    letters: dict[str, Any]


def state(store: DuckDBStore) -> State:
    page = store.evaluations(EvaluationQuery(space=SPACE)).items
    traces = store.spans_of(SPACE, [trace(n) for n in range(1, 6)])
    letters = store.dead_letters(LetterQuery(space=SPACE))
    return State(
        records={row.uid: row for row in store.records_of(SPACE, UIDS)},
        evaluations={row.evaluation_id.removeprefix("e-"): row for row in page},
        spans={int(each.span_id, 16): each for some in traces.values() for each in some},
        letters={each.letter.source: each.letter for each in letters},
    )


def found_in(folder: Path, wanted: str) -> list[str]:
    """The files that hold a text, as it is or as JSON escapes it."""
    return files_with(folder, wanted.encode(), json.dumps(wanted)[1:-1].encode())


class Expected(NamedTuple):
    """The items that a target takes, written by hand."""

    records: set[str]
    evaluations: set[str]
    blank: set[str]
    """Evaluations that stay, without texts."""
    spans: set[int]
    letters: set[str]


TARGETS: dict[str, tuple[dict[str, Any], Expected]] = {
    "session": (
        {"session_id": "s1"},
        Expected({"a1", "a2"}, {"a1", "a2", "s1"}, {"b1", "s2"}, {11, 12, 21, 51},
                 {"L1", "L3", "L4", "L6"}),
    ),
    "trace": (
        {"trace_id": trace(2)},
        Expected({"a2", "b1"}, {"a2", "b1"}, {"s1", "s2"}, {21, 22}, set()),
    ),
    "record": (
        {"record_uid": "b2"},
        Expected({"b2"}, {"b2"}, {"s2"}, {31}, set()),
    ),
    "shared-trace": (
        {"record_uid": "a2"},
        Expected({"a2"}, {"a2"}, {"s1"}, set(), set()),
    ),
    "dead-letter": (
        {"record_uid": "c1"},
        Expected({"c1"}, set(), set(), {41}, {"L7"}),
    ),
    "tag": (
        {"tag": ("user", "tag of ann")},
        Expected({"a1", "a2", "w1"}, {"a1", "a2", "s1"}, set(), {11, 12},
                 {"L3", "L4", "L5", "L6"}),
    ),
    "nothing": ({"session_id": "s"}, Expected(set(), set(), set(), set(), set())),
}  # fmt: skip


def gone_texts(expected: Expected) -> list[str]:
    """Every text that no file may hold."""
    found = [text("context", uid) for uid in expected.records]
    found += [text("span", number) for number in expected.spans]
    found += [text("letter", name) for name in expected.letters - {"L3", "L7"}]
    for name in expected.evaluations | expected.blank:
        found += [text(kind, name) for kind in ("expected", "actual", "message")]
    whole = [n for n in range(1, 6) if {k for k, of in SPANS.items() if of == n} <= expected.spans]
    found += [text("host of trace", n) for n in whole]
    if {"a1", "a2", "w1"} <= expected.records:
        found.append("tag of ann")
    return found


def check(before: State, after: State, expected: Expected) -> None:
    """Check that the expected items went, and everything else is as it was."""
    assert after.records == {
        uid: row for uid, row in before.records.items() if uid not in expected.records
    }
    assert after.spans == {n: each for n, each in before.spans.items() if n not in expected.spans}
    assert after.letters == {
        name: each for name, each in before.letters.items() if name not in expected.letters
    }
    assert set(after.evaluations) == set(before.evaluations) - expected.evaluations
    for name, row in after.evaluations.items():
        if name in expected.blank:
            (only,) = row.tasks
            assert (only.outcome, only.expected, only.actual) == (Outcome.PASSED, None, None)
            assert only.message == ""
        else:
            assert row == before.evaluations[name]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled") / "data"
    store = DuckDBStore(folder)
    fill(store)
    store.close()
    return folder


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Iterator[DuckDBStore]:
    """A copy that a test may change."""
    store = DuckDBStore(Path(shutil.copytree(filled, tmp_path / "data")))
    yield store
    store.close()


@pytest.mark.parametrize("name", TARGETS)
def test_what_goes_and_what_stays(store: DuckDBStore, tmp_path: Path, name: str) -> None:
    """By the table; then no file holds a byte of it, and the sheet still adds up."""
    target, expected = TARGETS[name]
    before, sheet = state(store), store.conservation(SPACE)
    texts = gone_texts(expected)
    kept_on_disk = [each for each in texts if found_in(tmp_path / "data", each)]

    erased = store.erase(EraseTarget(space=SPACE, **target)).result()

    assert erased.uids == expected.records
    assert erased.spans == len(expected.spans)
    assert (erased.evaluations, erased.dead_letters) == (
        len(expected.evaluations),
        len(expected.letters),
    )
    check(before, state(store), expected)
    assert store.has_rests() is bool(texts)
    if texts:  # else the search below could not fail
        assert any(found_in(tmp_path / "data", each) for each in kept_on_disk)
    store.remove_rests()
    assert not store.has_rests()
    assert [each for each in texts if found_in(tmp_path / "data", each)] == []
    check(before, state(store), expected)
    after = store.conservation(SPACE)
    assert after.records.accepted == sheet.records.accepted == 6
    assert after.records.erased == len(expected.records)
    parts = after.records
    assert parts.accepted == (
        parts.waiting + parts.evaluated + parts.skipped + parts.dead_lettered + parts.erased
    )
    assert (after.spans.accepted, after.spans.erased) == (7, len(expected.spans))
    assert after.spans.accepted == after.spans.stored + after.spans.erased


def test_rates_lose_the_evaluations_and_counters_keep_them(store: DuckDBStore) -> None:
    """Six evaluations of one task; a1, a2 and session s1 go: rates have three, counters six."""
    names = {"profile": "answers", "alias": "answers"}
    key = TotalKey(TotalName.TASKS, SPACE, **names, task="t1", label="passed")
    assert store.totals()[key] == 6
    store.erase(EraseTarget(space=SPACE, session_id="s1")).result()
    for until_ns in (None, 150):  # from the rollups, and from the results themselves
        (counts,) = store.task_counts(TaskQuery(space=SPACE, until_ns=until_ns))
        assert counts.passed == 3
    store.compact().result()
    assert store.totals()[key] == 6
    assert store.totals()[TotalKey(TotalName.ERASED, SPACE, label="record")] == 2


@pytest.mark.parametrize("is_reopened", [False, True])
def test_what_comes_again_is_a_duplicate(tmp_path: Path, is_reopened: bool) -> None:
    """Records, spans of the trace (new ones too) and evaluations on them; no text gets to disk."""
    store = DuckDBStore(tmp_path / "data")
    fill(store)
    row = store.records_of(SPACE, ["a1"])[0]
    store.erase(EraseTarget(space=SPACE, session_id="s1")).result()
    store.remove_rests()
    if is_reopened:
        store.close()
        store = DuckDBStore(tmp_path / "data")
    late = span(99, trace_id=trace(1), attributes={"prompt": text("span", 11)})

    assert store.append_records([row]).result().duplicates == (0,)
    appended = store.append_spans(SPACE, [stored_span(11), late, stored_span(21)], 9).result()
    assert (appended.stored, appended.duplicates) == ((), 3)
    fresh = span(98, trace_id=trace(2))
    assert store.append_spans(SPACE, [fresh, late], 9).result().stored == (fresh,)
    store.append_evaluations([evaluation("a1", tasks=task("a1"))]).result()
    store.append_dead_letters([letter(uid="a1", was_accepted=True)]).result()

    sheet = store.conservation(SPACE)
    assert (sheet.records.accepted, sheet.records.erased, sheet.records.duplicates) == (6, 2, 1)
    assert (sheet.records.evaluated, sheet.records.dead_lettered) == (2, 1)
    assert sheet.spans.duplicates == 3 + 4  # three came twice before
    store.checkpoint()
    for each in (text("context", "a1"), text("span", 11), text("actual", "a1")):
        assert found_in(tmp_path / "data", each) == []
    store.close()


@pytest.mark.parametrize("target", [{"session_id": "u5"}, {"record_uid": "u5"}])
def test_an_evaluation_that_outlived_its_records_goes(
    tmp_path: Path, target: dict[str, Any]
) -> None:
    """Retention took u5; its session's evaluation is younger. That of another session stays."""
    store = DuckDBStore(tmp_path / "data")
    store.append_records([record(uid, session_id="", received_ns=10) for uid in ("u5", "u6")])
    own = [evaluation(uid, session_id="", evaluated_ns=20) for uid in ("u5", "u6")]
    sessions = [
        evaluation(
            f"session {uid}", session_id=uid, evaluated_ns=60, scope=Scope.SESSION,
            tasks=task(uid), evaluation_id=f"s-{uid}",
        )
        for uid in ("u5", "u6")
    ]  # fmt: skip
    store.append_evaluations(own + sessions).result()
    assert store.remove_before(52) == 2
    store.compact().result()
    store.checkpoint()
    assert found_in(tmp_path / "data", text("actual", "u5"))

    erased = store.erase(EraseTarget(space=SPACE, **target)).result()

    assert (erased.uids, erased.evaluations) == (frozenset(), 1)
    left = store.evaluations(EvaluationQuery(space=SPACE)).items
    assert [row.evaluation_id for row in left] == ["s-u6"]
    assert store.has_rests()
    store.remove_rests()
    assert found_in(tmp_path / "data", text("actual", "u5")) == []
    (counts,) = store.task_counts(TaskQuery(space=SPACE))
    assert counts.passed == 1
    store.close()
    assert check_store(tmp_path / "data").problems == []


def test_another_space_is_not_touched(store: DuckDBStore) -> None:
    """The same uid, session and trace elsewhere stay."""
    store.append_records([record("a1", space="other", session_id="s1")]).result()
    store.append_spans("other", [stored_span(11)], 1).result()
    store.erase(EraseTarget(space=SPACE, session_id="s1")).result()
    store.remove_rests()
    assert [row.uid for row in store.records_of("other", ["a1"])] == ["a1"]
    assert store.spans_of("other", [trace(1)]) == {trace(1): [stored_span(11)]}
    assert store.append_records([record("a1", space="third")]).result().accepted


def test_a_reader_that_stays_only_delays(store: DuckDBStore, tmp_path: Path) -> None:
    """The file is not changed under somebody who reads; the next round does it."""
    store.erase(EraseTarget(space=SPACE, session_id="s1")).result()
    reading = store._database.in_use()  # pyright: ignore[reportPrivateUsage] - a read that lasts
    with reading, pytest.raises(TransientError, match="read all the time"):
        store.remove_rests()
    assert store.has_rests()
    store.remove_rests()
    assert not store.has_rests()
    assert found_in(tmp_path / "data", text("context", "a1")) == []


def test_what_copies_files_is_waited_for(
    store: DuckDBStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of erased spans go from under no backup: all that its rows lead to is in it."""
    copy_log = maintenance._copy_log  # pyright: ignore[reportPrivateUsage]
    rounds = ThreadPoolExecutor(1)
    tidied: list[Future[None]] = []

    def slow(log: SpanLog, folder: Path) -> None:
        store.erase(EraseTarget(space=SPACE, session_id="s1")).result()
        tidied.append(rounds.submit(store.remove_rests))
        wait([tidied[0]], 0.5)
        copy_log(log, folder)

    monkeypatch.setattr(maintenance, "_copy_log", slow)
    store.backup(tmp_path / "backup")
    rounds.shutdown()
    tidied[0].result()
    assert not store.has_rests()
    report = check_store(tmp_path / "backup")
    assert (report.spans, report.problems) == (7, [])


def test_writers_and_the_last_file_of_the_log_go_on(tmp_path: Path) -> None:
    """The file that is appended to is replaced; what comes behind it is found after a restart."""
    store = DuckDBStore(tmp_path / "data", log_file_bytes=400)
    fill(store)
    assert len(list((tmp_path / "data" / "spans").iterdir())) > 2
    store.erase(EraseTarget(space=SPACE, trace_id=trace(5))).result()
    store.remove_rests()
    store.append_spans(SPACE, [span(7, trace_id=trace(7))], 1).result()
    store.close()
    store = DuckDBStore(tmp_path / "data")
    assert set(state(store).spans) == set(SPANS) - {51}
    assert store.spans_of(SPACE, [trace(7)]) == {trace(7): [span(7, trace_id=trace(7))]}
    store.close()


# --- killed at any moment -------------------------------------------------------------------

_DRIVER = """
import itertools, os, shutil, signal, sys
from pathlib import Path

import collector.storage.duckdb.database as database
import collector.storage.duckdb.erase as duckdb_erase
import collector.storage.log.span_log as span_log
import collector.storage.duckdb.transaction as transaction
import collector.storage.duckdb.committer as committer
from collector.storage.duckdb.store import DuckDBStore
from collector.store.erase import EraseTarget

base, out, apart = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

def erase(folder, fatal):
    store = DuckDBStore(folder)
    left = [fatal]

    def fuse(function):
        def fused(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)
        return fused

    for module in (database, duckdb_erase, committer, transaction):
        module.run = fuse(module.run)
    span_log._write_all, span_log._sync = fuse(span_log._write_all), fuse(span_log._sync)
    database.sync_folder = span_log.sync_folder = fuse(span_log.sync_folder)
    Path.replace = fuse(Path.replace)
    store.erase(EraseTarget(space="default", session_id="s1")).result()
    store.remove_rests()
    os._exit(0)

for fatal in itertools.count(1, apart):
    folder = out / str(fatal)
    shutil.copytree(base, folder)
    child = os.fork()
    if not child:
        erase(folder, fatal)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        break
"""


@pytest.mark.parametrize("apart", [8, pytest.param(1, marks=pytest.mark.long)])
def test_killed_at_any_step_it_is_finished_later(filled: Path, tmp_path: Path, apart: int) -> None:
    """Before the commit everything is there; after it what is erased is, and its bytes go.

    The steps that are `apart` from each other are of all kinds; the long test takes each step.
    """
    target, expected = TARGETS["session"]
    store = DuckDBStore(Path(shutil.copytree(filled, tmp_path / "base")))
    before = state(store)
    store.close()
    (tmp_path / "out").mkdir()
    command = [sys.executable, "-c", _DRIVER, tmp_path / "base", tmp_path / "out", str(apart)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3], timeout=280)
    folders = sorted((tmp_path / "out").iterdir(), key=lambda each: int(each.name))
    assert len(folders) > 80 // apart
    seen: set[tuple[bool, bool]] = set()
    for folder in folders:
        store = DuckDBStore(folder)
        now = state(store)
        is_erased = now != before
        seen.add((is_erased, store.has_rests()))
        if is_erased:
            check(before, now, expected)
        else:
            store.erase(EraseTarget(space=SPACE, **target)).result()
        store.remove_rests()
        check(before, state(store), expected)
        assert store.conservation(SPACE).records.erased == 2
        store.close()
        rests = [each for each in gone_texts(expected) if found_in(folder, each)]
        assert rests == [], folder.name
        assert {each.name for each in folder.iterdir()} <= {
            "scouter.duckdb", "spans", "tally.jsonl",
        }  # fmt: skip
        shutil.rmtree(folder)
    assert seen == {(False, False), (True, True), (True, False)}


# --- parts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 128, 129, 130, 131, 16_385, 16_386, 16_387, 16_388])
def test_a_filler_is_a_field_of_that_size(size: int) -> None:
    """At the sizes where its length takes a byte more as well."""
    found = filler(b"\x2a", size)
    assert len(found) == size
    assert set(SpanMessage.FromString(found).name) <= {"\x00"}


@settings(deadline=None, max_examples=examples(25))
@given(batch=st.lists(spans, min_size=1, max_size=5, unique_by=lambda s: s.span_id), data=st.data())
def test_the_others_of_a_frame_stay_byte_for_byte(batch: list[Span], data: st.DataObject) -> None:
    """The frame stays a request of the same length, with the other spans at their places."""
    lost = data.draw(st.sets(st.sampled_from(range(len(batch)))))
    body = encode_request(batch).SerializeToString()
    scrub = LogScrub(("s", batch[at].trace_id, batch[at].span_id) for at in lost)
    cleaned = scrub.clean(Frame(space="s", received_ns=1, body=body))
    assert (cleaned is None) is (not lost)
    if cleaned is None:
        return
    assert len(cleaned) == len(body)
    gone = {bytes.fromhex(batch[at].span_id) for at in lost}
    found = _messages(ExportTraceServiceRequest.FromString(cleaned))
    wanted = _messages(ExportTraceServiceRequest.FromString(body))
    assert [each for each in found if each.trace_id] == [
        each for each in wanted if each.span_id not in gone
    ]
    assert len(found) == len(wanted)
    assert scrub.clean(Frame(space="s", received_ns=1, body=cleaned)) is None
    assert scrub.clean(Frame(space="other", received_ns=1, body=body)) is None


def _messages(request: ExportTraceServiceRequest) -> list[SpanMessage]:
    return [
        each for group in request.resource_spans for scope in group.scope_spans
        for each in scope.spans
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "is_found"),
    [
        pytest.param(b'{"uid": "u-7"}', True, id="value"),
        pytest.param(b'{"uid": "u-77"}', False, id="longer"),
        pytest.param(b'{"u-7": 1}', True, id="key"),
        pytest.param(b'{"body": "{\\"uid\\": \\"u-7\\"}"}', True, id="json-in-json"),
        pytest.param(b'[{"x": ["u\\u002d7"]}]', True, id="escaped"),
        pytest.param(b'{"uid": "u-7", "cut', True, id="cut-off"),
        pytest.param(b'{"body": "{\\"uid\\": \\"u-7\\", \\"cut', True, id="inside-cut-off"),
        pytest.param(b"\x0a\x03u-7", True, id="protobuf"),
        pytest.param(b"\x0a\x04u-77", False, id="protobuf-longer"),
        pytest.param(bytes.fromhex("ff" + trace(1)), True, id="trace"),
        pytest.param(json.dumps({"traceId": trace(1).upper()}).encode(), True, id="trace-json"),
        pytest.param(json.dumps({"traceId": trace(2)}).encode(), False, id="other-trace"),
        pytest.param(b'{"tags": {"user": "ann"}}', True, id="tag"),
        pytest.param(b'{"tags": {"user": "anna"}}', False, id="tag-longer"),
        pytest.param(b'{"tags": {"name": "ann"}}', False, id="other-tag"),
        pytest.param(b'{"key": "user", "value": {"stringValue": "ann"}}', True, id="tag-otlp"),
        pytest.param(b"\x0a\x04user\x12\x05\x0a\x03ann", True, id="tag-protobuf"),
        pytest.param(b'{"a":' * 500 + b'"u-7"' + b"}" * 500, True, id="deep"),
        pytest.param(b"", False, id="empty"),
    ],
)
def test_letters_that_speak_of_it(payload: bytes, is_found: bool) -> None:
    assert LetterSearch(["u-7"], [trace(1)], ("user", "ann")).finds(payload) is is_found
