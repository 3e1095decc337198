"""Labels that people give records, and runs that they bring, in any store."""

from pathlib import Path
from typing import Any

from collector.storage.port.erase import EraseTarget
from collector.storage.port.labels import LabelQuery, LabelRow
from collector.storage.port.runs import RunRow
from collector.storage.port.store import Store
from tests.contracts.store_data import SPACE, evaluation, record
from tests.contracts.store_opened import Open, OpenCopy, OpenedStore


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


def said(store: Store, **asked: Any) -> list[tuple[str, str, bool | None]]:
    """Uid, person and label, the newest first."""
    found = store.labels(LabelQuery(space=SPACE, **asked))
    return [(each.uid, each.rater, each.is_good) for each in found]


class PeopleContract(OpenedStore):
    """See `store.StoreContract`."""

    def test_the_last_label_of_a_person_counts(self, open_store: Open) -> None:
        """On each task of each record, also after a restart; of another space none is seen."""
        store = open_store()
        store.append_records([record("u1"), record("u2")]).result()
        store.append_labels([label("u1"), label("u1", "bob"), label("u2")]).result()
        store.append_labels([label("u1", is_good=False), label("u1", task_id="t2")]).result()
        store.append_labels([label("u1", space="other", is_good=False)]).result()
        store.close()
        store = open_store()
        assert sorted(said(store, task_id="t1")) == [
            ("u1", "ada", False), ("u1", "bob", True), ("u2", "ada", True),
        ]  # fmt: skip
        assert said(store, task_id="t2") == [("u1", "ada", True)]
        assert said(store, uid="u2") == [("u2", "ada", True)]
        assert said(store, rater="bob") == [("u1", "bob", True)]
        assert said(store, alias="none") == []

    def test_a_label_keeps_its_score(self, open_store: Open) -> None:
        """A later label without one takes its place; 0 is a score."""
        store = open_store()
        store.append_records([record("u1")]).result()
        store.append_labels([label("u1", score=0.0), label("u1", "bob", score=3.25)]).result()
        store.append_labels([label("u1")]).result()
        store.append_labels([label("u1", "cy", score=-7.0, is_good=False)]).result()
        store.close()
        found = open_store().labels(LabelQuery(space=SPACE))
        assert {each.rater: each.score for each in found} == {"ada": None, "bob": 3.25, "cy": -7.0}

    def test_pages_of_labels_hold_each_once(self, store: Store) -> None:
        store.append_records([record(f"u{n}") for n in range(5)]).result()
        for n in range(5):
            store.append_labels([label(f"u{n}")]).result()
        seen: list[str] = []
        before = None
        while page := store.labels(LabelQuery(space=SPACE, limit=2, before=before)):
            seen += [each.uid for each in page]
            before = page[-1].place
        assert seen == ["u4", "u3", "u2", "u1", "u0"]

    def test_labels_go_with_their_record(self, store: Store) -> None:
        store.append_records([record("u1"), record("u2")]).result()
        store.append_labels([label("u1"), label("u2")]).result()
        store.erase(EraseTarget(space=SPACE, record_uid="u1")).result()
        assert said(store) == [("u2", "ada", True)]
        store.append_labels([label("u1")]).result()  # of somebody whose page was still open
        assert said(store) == [("u2", "ada", True)]

    def test_retention_takes_labels_and_runs(self, store: Store) -> None:
        """It takes labels and runs from before a time."""
        store.append_records([record("old"), record("new")]).result()
        rows = [evaluation("old", evaluated_ns=10), evaluation("new", evaluated_ns=30)]
        store.append_evaluations(rows).result()
        store.append_labels([label("old", at_ns=40), label("new", at_ns=40)]).result()
        store.append_run(run("old", added_ns=10)).result()
        store.append_run(run("new", added_ns=30)).result()
        store.remove_before(20)
        assert said(store) == [("new", "ada", True)]
        assert [each.run_id for each in store.runs(SPACE)] == ["new"]

    def test_a_run_is_kept_once_as_it_came_first(self, open_store: Open) -> None:
        store = open_store()
        assert store.append_run(run("r1")).result() is True
        assert store.append_run(run("r1", name="again", body=b"{}")).result() is False
        assert store.append_run(run("r1", space="other", body=b"[]")).result() is True
        store.close()
        store = open_store()
        assert store.run(SPACE, "r1") == run("r1")
        assert store.run(SPACE, "r2") is None

    def test_lists_of_runs_have_no_bodies(self, store: Store) -> None:
        for n in range(3):
            store.append_run(run(f"r{n}", added_ns=n)).result()
        assert list(store.runs(SPACE)) == [run(f"r{n}", added_ns=n, body=b"") for n in (2, 1, 0)]
        assert list(store.runs("other")) == []

    def test_a_removed_run_is_gone(self, store: Store) -> None:
        store.append_run(run("r1")).result()
        assert store.remove_run("other", "r1").result() is False
        assert store.remove_run(SPACE, "r1").result() is True
        assert store.remove_run(SPACE, "r1").result() is False
        assert store.run(SPACE, "r1") is None

    def test_a_backup_has_labels_and_runs(
        self, store: Store, open_copy: OpenCopy, tmp_path: Path
    ) -> None:
        store.append_records([record("u1")]).result()
        store.append_labels([label("u1")]).result()
        store.append_run(run("r1")).result()
        store.backup(tmp_path / "copy")
        copy = open_copy(tmp_path / "copy")
        try:
            assert said(copy) == [("u1", "ada", True)]
            assert copy.run(SPACE, "r1") == run("r1")
        finally:
            copy.close()
