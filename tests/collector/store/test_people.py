"""What becomes of labels, runs and states when something is erased, expires or is copied."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.store.alerts import DriftState
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.file_store import FileStore
from collector.store.judges import GoldOutcome, GoldQuery
from collector.store.labels import LabelQuery
from collector.store.rows import Scope
from scouter.evaluate.outcome import Outcome
from scouter.model.span import Span
from tests.contracts.store_data import SPACE, evaluation, record
from tests.contracts.store_people import label, run
from tests.support.store_appends import AppendingPostgresql, AppendingStore
from tests.support.store_commits import Engine, Sent

Own = AppendingStore | AppendingPostgresql
Open = Callable[[], Own]
TRACES = [f"{number:032x}" for number in range(1, 4)]


@pytest.fixture
def store(open_store: Open) -> Iterator[Own]:
    store = open_store()
    yield store
    store.close()


def fill(engine: Engine, space: str) -> None:
    """Two records of one trace, in sessions of their own, and a third; labels and runs on them."""
    sent = Sent(space=space)
    spans = [
        Span(trace_id=trace_id, span_id=f"{1:016x}", name="step", start_ns=1, end_ns=2)
        for trace_id in TRACES
    ]
    records = [
        record("r0", space=space, session_id="ann", trace_id=TRACES[0]),
        record("r1", space=space, session_id="ann", trace_id=TRACES[1]),
        record("r2", space=space, session_id="bob", trace_id=TRACES[1]),
        record("r3", space=space, session_id="cy", trace_id=TRACES[2]),
    ]
    sent.append(engine, spans, records=records)
    rows = [
        evaluation(each.uid, space=space, evaluation_id=f"{space} {each.uid}",
                   trace_id=each.trace_id, reads_spans=True, session_id=each.session_id)
        for each in records
    ]  # fmt: skip
    sent.append(engine, evaluations=rows)
    labels = [label(f"r{n}", space=space, notes="they said so") for n in range(4)]
    engine.append_labels([*labels, label("r2", "bob", space=space)])
    for name, about in (("one", "r0"), ("two", "r3")):
        body = json.dumps({"results": [{"record_uid": about}], "agent": "ann"}).encode()
        assert engine.append_run(run(name, space=space, body=body))


def left(engine: Engine, space: str) -> dict[str, object]:
    return {
        "labels": {
            (each.uid, each.rater): each.notes for each in engine.labels(LabelQuery(space=space))
        },
        "runs": [each.run_id for each in engine.runs(space)],
    }


NOTE = "they said so"
EVERYTHING = {
    "labels": {
        ("r0", "ada"): NOTE, ("r1", "ada"): NOTE, ("r2", "ada"): NOTE, ("r2", "bob"): "",
        ("r3", "ada"): NOTE,
    },
    "runs": ["two", "one"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(
            {"session_id": "ann"},
            {
                "labels": {("r2", "ada"): NOTE, ("r2", "bob"): "", ("r3", "ada"): NOTE},
                "runs": ["two"],
            },
            id="session",
        ),
        pytest.param(
            {"trace_id": TRACES[1]},
            {"labels": {("r0", "ada"): NOTE, ("r3", "ada"): NOTE}, "runs": ["two", "one"]},
            id="trace",
        ),
        pytest.param(
            {"record_uid": "r3"},
            {
                "labels": {
                    ("r0", "ada"): NOTE, ("r1", "ada"): NOTE, ("r2", "ada"): NOTE,
                    ("r2", "bob"): "",
                },
                "runs": ["one"],
            },
            id="record",
        ),
    ],
)  # fmt: skip
def test_an_erasure_takes_labels_and_runs(
    engine: Engine, target: dict[str, str], expected: dict[str, object]
) -> None:
    """The run goes as a whole that names a record; of another space nothing goes."""
    space, other = (f"people {name} {sorted(target)}" for name in ("a", "b"))
    fill(engine, space)
    fill(engine, other)
    assert left(engine, space) == EVERYTHING
    erased = EraseTarget(space=space, **target)  # type: ignore[arg-type]
    assert engine.erase(erased).runs == 2 - len(expected["runs"])  # type: ignore[arg-type]
    assert left(engine, space) == expected
    assert left(engine, other) == EVERYTHING


def test_notes_go_from_what_stays_and_has_seen_it(store: Own) -> None:
    """A record of a trace that loses the spans of another session keeps its label alone."""
    sent = Sent(space=SPACE)
    own, other = (
        Span(
            trace_id=TRACES[0], span_id=f"{number:016x}", name="step", start_ns=1, end_ns=2,
            attributes={"session.id": name},
        )
        for number, name in ((1, "ann"), (2, "bob"))
    )  # fmt: skip
    stays = record("stays", session_id="bob", trace_id=TRACES[0])
    gone = record("gone", session_id="ann", trace_id=TRACES[0])
    sent.append(store, [own, other], records=[stays, gone])
    row = evaluation("stays", trace_id=TRACES[0], reads_spans=True, session_id="bob")
    sent.append(store, evaluations=[row])
    store.append_labels([label(uid, notes=NOTE) for uid in ("stays", "gone")])
    store.erase(EraseTarget(space=SPACE, session_id="ann"))
    (found,) = store.labels(LabelQuery(space=SPACE))
    assert (found.uid, found.is_good, found.notes) == ("stays", True, "")


def test_a_label_on_what_was_erased_is_dropped(store: Own) -> None:
    """Of somebody whose page was still open."""
    Sent(space=SPACE).append(store, records=[record("r0"), record("r1")])
    store.erase(EraseTarget(space=SPACE, record_uid="r0"))
    store.append_labels([label("r0"), label("r1"), label("r0", space="elsewhere")])
    assert [each.uid for each in store.labels(LabelQuery(space=SPACE))] == ["r1"]
    assert [each.uid for each in store.labels(LabelQuery(space="elsewhere"))] == ["r0"]


def gold(slot: int, unit: int = 1) -> GoldOutcome:
    return GoldOutcome(
        space=SPACE, alias="a", task_id="t", judge="j", slot=slot, item="i", is_good=True,
        outcome=Outcome.PASSED, reason=None, at_ns=10 * slot * unit,
    )  # fmt: skip


def test_gold_is_in_no_count_of_an_agent(store: Own) -> None:
    before = store.totals(), store.conservation(SPACE)
    store.append_gold_outcomes([gold(1)])
    assert (store.totals(), store.conservation(SPACE)) == before


def test_retention_takes_labels_runs_and_gold(store: Own) -> None:
    """Labels go with their record, whenever they were given; runs and gold have their own times."""
    sent = Sent(space=SPACE)
    for uid, at_ns in (("old", 10), ("new", 30)):
        received_ns = at_ns * store.unit
        sent.append(store, records=[record(uid, received_ns=received_ns)], received_ns=received_ns)
        row = evaluation(uid, evaluation_id=uid, scope=Scope.RECORD, evaluated_ns=at_ns)
        sent.append(store, evaluations=[row])
    store.append_labels([label("old", at_ns=40), label("new", at_ns=40)])
    store.append_run(run("old", added_ns=10 * store.unit))
    store.append_run(run("new", added_ns=30 * store.unit))
    store.append_gold_outcomes([gold(1, store.unit), gold(3, store.unit)])
    store.commit(Commit(low_seq=store.last_seq() + 1))
    store.remove_before(20 * store.unit)
    assert [each.uid for each in store.labels(LabelQuery(space=SPACE))] == ["new"]
    assert [each.run_id for each in store.runs(SPACE)] == ["new"]
    query = GoldQuery(space=SPACE, alias="a", task_id="t", judge="j")
    assert [each.slot for each in store.gold_outcomes(query)] == [3]


def test_what_takes_a_place_while_the_file_is_copied_stays(folder: Path) -> None:
    """States, runs and notes that come behind a change are not taken by it in the copy."""
    store = FileStore(folder)
    sent = Sent(space=SPACE)
    sent.append(store, records=[record("r0"), record("r1")])
    store.save_drift([DriftState(name=name, body="1") for name in "abc"], [])
    store.append_run(run("r"))
    store.append_run(run("s"))
    sent.append(store)
    store.erase(EraseTarget(space=SPACE, record_uid="r0"))
    steps = iter(range(9))

    def is_over() -> bool:
        """Called between two steps of the copy."""
        if next(steps) == 0:
            store.save_drift([DriftState(name="a", body="2"), DriftState(name="b", body="")], [])
            assert store.remove_run(SPACE, "r")
            assert store.remove_run(SPACE, "s")
            assert store.append_run(run("r", name="again"))
            for _ in range(5):
                sent.append(store)
        return False

    assert store.purge(is_over)
    for _ in range(2):
        assert {each.name: each.body for each in store.drift_states()} == {"a": "2", "c": "1"}
        assert [(each.run_id, each.name) for each in store.runs(SPACE)] == [("r", "again")]
        store.close()
        store = FileStore(folder)
    store.close()
