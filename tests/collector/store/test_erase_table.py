"""Erasing by a table written by hand: what goes, what stays, and that no file has a byte of it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from collector.metrics import TotalKey, TotalName
from collector.store.erase import EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.letters import LetterQuery
from collector.store.rates import TaskQuery
from collector.store.rows import Scope, TaskRow
from scouter.evaluate.outcome import Outcome
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, Span
from tests.contracts.store_data import SPACE, evaluation, letter, record, span
from tests.support.files import files_with
from tests.support.store_appends import AppendingStore

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


def fill(store: AppendingStore) -> None:
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


def state(store: AppendingStore) -> State:
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
    store = AppendingStore(folder)
    fill(store)
    store.close()
    return folder


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Iterator[AppendingStore]:
    """A copy that a test may change."""
    store = AppendingStore(Path(shutil.copytree(filled, tmp_path / "data")))
    yield store
    store.close()


@pytest.mark.parametrize("name", TARGETS)
def test_what_goes_and_what_stays(store: AppendingStore, tmp_path: Path, name: str) -> None:
    """By the table; then no file holds a byte of it, and the sheet still adds up."""
    target, expected = TARGETS[name]
    before, sheet = state(store), store.conservation(SPACE)
    texts = gone_texts(expected)
    on_disk = [each for each in texts if found_in(tmp_path / "data", each)]

    erased = store.erase(EraseTarget(space=SPACE, **target))

    assert erased.uids == expected.records
    assert erased.spans == len(expected.spans)
    assert (erased.evaluations, erased.dead_letters) == (
        len(expected.evaluations),
        len(expected.letters),
    )
    check(before, state(store), expected)
    assert store.has_rests() is bool(texts)
    if texts:  # else the search below could not fail
        assert any(found_in(tmp_path / "data", each) for each in on_disk)
    assert store.purge() is bool(texts)
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


def test_rates_lose_the_evaluations_and_counters_keep_them(store: AppendingStore) -> None:
    """Six evaluations of one task; a1, a2 and session s1 go: rates have three, counters six."""
    names = {"profile": "answers", "alias": "answers"}
    key = TotalKey(TotalName.TASKS, SPACE, **names, task="t1", label="passed")
    assert store.totals()[key] == 6
    store.erase(EraseTarget(space=SPACE, session_id="s1"))
    for until_ns in (None, 150):  # from the rollups, and from the results themselves
        (counts,) = store.task_counts(TaskQuery(space=SPACE, until_ns=until_ns))
        assert counts.passed == 3
    store.add_up()
    assert store.totals()[key] == 6
    assert store.totals()[TotalKey(TotalName.ERASED, SPACE, label="record")] == 2


@pytest.mark.parametrize("is_reopened", [False, True])
def test_what_comes_again_is_a_duplicate(tmp_path: Path, is_reopened: bool) -> None:
    """Records, spans of the trace (new ones too) and evaluations on them; no text gets to disk."""
    store = AppendingStore(tmp_path / "data")
    fill(store)
    row = store.records_of(SPACE, ["a1"])[0]
    store.erase(EraseTarget(space=SPACE, session_id="s1"))
    assert store.purge()
    if is_reopened:
        store.close()
        store = AppendingStore(tmp_path / "data")
    late = span(99, trace_id=trace(1), attributes={"prompt": text("span", 11)})

    store.append_records([row]).result()
    store.append_spans(SPACE, [stored_span(11), late, stored_span(21)], 9).result()
    fresh = span(98, trace_id=trace(2))
    store.append_spans(SPACE, [fresh, late], 9).result()
    assert store.spans_of(SPACE, [trace(1), trace(2)]) == {trace(2): [stored_span(22), fresh]}
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


def test_another_space_is_not_touched(store: AppendingStore) -> None:
    """The same uid, session and trace elsewhere stay."""
    store.append_records([record("a1", space="other", session_id="s1")]).result()
    store.append_spans("other", [stored_span(11)], 1).result()
    store.erase(EraseTarget(space=SPACE, session_id="s1"))
    assert store.purge()
    assert [row.uid for row in store.records_of("other", ["a1"])] == ["a1"]
    assert store.spans_of("other", [trace(1)]) == {trace(1): [stored_span(11)]}
    assert store.append_records([record("a1", space="third")]).result().accepted
