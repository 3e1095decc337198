"""Labels that people give records, and runs that they bring, in any store."""

from typing import Any

from collector.store.erase import EraseTarget
from collector.store.labels import LabelQuery, LabelRow
from collector.store.rows import TaskRow
from collector.store.runs import RunRow
from scouter.evaluate.outcome import Outcome
from scouter.model.score import SCORE_OF, score_uid
from tests.contracts.store_data import SPACE, TRACE, evaluation, record
from tests.contracts.store_opened import Open, OpenedStore
from tests.support.store_appends import AppendingStore


def label(uid: str = "u1", rater: str = "ada", **fields: Any) -> LabelRow:
    given: dict[str, Any] = {
        "space": SPACE, "record_id": f"record {uid}", "alias": "answers", "task_id": "t1",
        "is_good": True, "notes": "", "at_ns": 5, "by": "token-1",
    }  # fmt: skip
    return LabelRow(uid=uid, rater=rater, **(given | fields))


def run(run_id: str = "r1", **fields: Any) -> RunRow:
    given: dict[str, Any] = {
        "space": SPACE, "name": "nightly", "added_ns": 5, "added_by": "token-1",
        "summary": '{"records": 1}', "body": b'{"results": []}',
    }  # fmt: skip
    return RunRow(run_id=run_id, **(given | fields))


def feedback(outcome: Outcome) -> TaskRow:
    return TaskRow(task_id="thumb", task_type="Feedback", outcome=outcome)


def said(store: AppendingStore, **filters: Any) -> list[tuple[str, str, bool | None]]:
    """Uid, person and label, the newest first."""
    found = store.labels(LabelQuery(space=SPACE, **filters))
    return [(each.uid, each.rater, each.is_good) for each in found]


class PeopleContract(OpenedStore):
    """What people say."""

    def test_the_last_label_of_a_person_counts(self, open_store: Open) -> None:
        """On each task of each record, also after a restart; of another space none is seen."""
        store = open_store()
        store.append_records([record("u1"), record("u2")]).result()
        store.append_labels([label("u1"), label("u1", "bob"), label("u2")])
        store.append_labels([label("u1", is_good=False), label("u1", task_id="t2")])
        store.append_labels([label("u1", space="other", is_good=False)])
        store.close()
        store = open_store()
        assert sorted(said(store, task_id="t1")) == [
            ("u1", "ada", False), ("u1", "bob", True), ("u2", "ada", True),
        ]  # fmt: skip
        assert said(store, task_id="t2") == [("u1", "ada", True)]
        assert said(store, uid="u2") == [("u2", "ada", True)]
        assert said(store, rater="bob") == [("u1", "bob", True)]
        assert said(store, alias="none") == []

    def test_labels_are_counted_by_task(self, store: AppendingStore) -> None:
        """Each record and each person once; a label that was taken back is none."""
        store.append_records([record("u1"), record("u2")]).result()
        store.append_labels([label("u1"), label("u1", "bob"), label("u2")])
        store.append_labels([label("u1", is_good=False), label("u2", "cy")])
        store.append_labels([label("u2", "cy", is_good=None), label("u2", task_id="t2")])
        store.append_labels([label("u1", task_id="t3")])
        store.append_labels([label("u1", task_id="t3", is_good=None)])
        store.append_labels([label("u1", space="other")])
        counts = {
            (each.alias, each.task_id): (each.records, each.raters)
            for each in store.label_counts(SPACE)
        }
        assert counts == {("answers", "t1"): (2, 2), ("answers", "t2"): (1, 1)}

    def test_a_person_is_named_as_they_were_first(self, store: AppendingStore) -> None:
        """Case and outer spaces make no other person; names of another space are not shown."""
        store.append_records([record("u1")]).result()
        for name in ("Ben", "Anna", " anna", "BEN"):
            store.append_labels([label("u1", name)])
        store.append_labels([label("u1", "Cy", space="other")])
        assert list(store.label_raters(SPACE)) == ["Ben", "Anna"]

    def test_a_label_keeps_its_score(self, open_store: Open) -> None:
        """A later label without one takes its place; 0 is a score. The mark is stored, too."""
        store = open_store()
        store.append_records([record("u1")]).result()
        store.append_labels([label("u1", score=0.0), label("u1", "bob", score=3.25)])
        origin = {"order": "outcome", "stratum": "failed", "size": 7}
        store.append_labels([label("u1", "dan", is_blind=False, **origin)])
        store.append_labels([label("u1")])
        store.append_labels([label("u1", "cy", score=-7.0, is_good=False)])
        store.close()
        found = open_store().labels(LabelQuery(space=SPACE))
        assert {each.rater: each.score for each in found} == {
            "ada": None, "bob": 3.25, "cy": -7.0, "dan": None,
        }  # fmt: skip
        assert [each.rater for each in found if each.is_blind is False] == ["dan"]
        said = {each.rater: (each.order, each.stratum, each.size) for each in found}
        assert said.pop("dan") == ("outcome", "failed", 7)
        assert set(said.values()) == {(None, None, None)}

    def test_pages_of_labels_hold_each_once(self, store: AppendingStore) -> None:
        store.append_records([record(f"u{n}") for n in range(5)]).result()
        for n in range(5):
            store.append_labels([label(f"u{n}")])
        seen: list[str] = []
        before = None
        while page := store.labels(LabelQuery(space=SPACE, limit=2, before=before)):
            seen += [each.uid for each in page]
            before = page[-1].place
        assert seen == ["u4", "u3", "u2", "u1", "u0"]

    def test_feedback_beside_a_task(self, store: AppendingStore) -> None:
        """On its trace or its record; what names a record is compared with no other."""
        of = {SCORE_OF: "u2"}
        rows = [
            evaluation("u1", trace_id=TRACE),
            evaluation("u2", Outcome.FAILED, trace_id=TRACE),
            evaluation("u3", trace_id=None),
            evaluation(score_uid("1"), tasks=(feedback(Outcome.PASSED),), trace_id=TRACE),
            evaluation(score_uid("2"), Outcome.FAILED, (feedback(Outcome.FAILED),), tags=of),
        ]
        store.append_evaluations(rows).result()

        found = store.feedback_beside(SPACE, "answers", "t1")

        counts = found.good_passed, found.good_failed, found.bad_passed, found.bad_failed
        assert counts == (1, 1, 0, 1)
        assert store.feedback_beside(SPACE, "answers", "t2").total == 0

    def test_a_score_goes_with_what_it_is_about(self, store: AppendingStore) -> None:
        """With its record, and with its trace, which another score does not hold back."""
        of = {SCORE_OF: "u1"}
        its, on_trace, other = score_uid("1"), score_uid("2"), score_uid("3")
        store.append_records([
            record("u1", trace_id=TRACE), record(its, tags=of), record(other),
            record(on_trace, trace_id=TRACE),
        ]).result()  # fmt: skip

        done = store.erase(EraseTarget(space=SPACE, record_uid="u1"))

        assert done.uids == {"u1", its, on_trace}
        assert [row.uid for row in store.records_of(SPACE, [its, on_trace, other])] == [other]

    def test_a_run_is_stored_once_as_it_came_first(self, open_store: Open) -> None:
        store = open_store()
        assert store.append_run(run("r1")) is True
        assert store.append_run(run("r1", name="again", body=b"{}")) is False
        assert store.append_run(run("r1", space="other", body=b"[]")) is True
        store.close()
        store = open_store()
        assert store.run(SPACE, "r1") == run("r1")
        assert store.run(SPACE, "r2") is None

    def test_lists_of_runs_have_no_bodies(self, store: AppendingStore) -> None:
        for n in range(3):
            store.append_run(run(f"r{n}", added_ns=n))
        assert list(store.runs(SPACE)) == [run(f"r{n}", added_ns=n, body=b"") for n in (2, 1, 0)]
        assert list(store.runs("other")) == []

    def test_a_removed_run_is_gone(self, store: AppendingStore) -> None:
        store.append_run(run("r1"))
        assert store.remove_run("other", "r1") is False
        assert store.remove_run(SPACE, "r1") is True
        assert store.remove_run(SPACE, "r1") is False
        assert store.run(SPACE, "r1") is None
