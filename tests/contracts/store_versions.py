"""Answers of every store about a profile's records: their versions, and their outcomes."""

from dataclasses import replace
from typing import Any

import pytest

from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import Scope, TaskRow
from collector.store.totals import HOUR_NS
from collector.store.versions import VersionRow
from scouter.evaluate.outcome import Outcome
from scouter.model.span import Resource
from tests.contracts.store_data import SPACE, evaluation, profile, span
from tests.contracts.store_opened import OpenedStore
from tests.support.store_appends import AppendingStore

MINUTE_NS = 60 * 10**9


def append(store: AppendingStore, uid: str, version: str, at_ns: int, **fields: Any) -> None:
    """Store an evaluation with two tasks, in a commit of its own."""
    tasks = tuple(
        TaskRow(task_id=name, task_type="x", outcome=Outcome.PASSED)
        for name in fields.pop("tasks", "ab")
    )
    row = evaluation(
        uid, tasks=tasks, service_version=version, evaluated_ns=at_ns,
        evaluation_id=f"{uid} {fields.get('revision', 1)}", **fields,
    )  # fmt: skip
    store.append_evaluations([row]).result()


def row(version: str, first_ns: int, last_ns: int, records: int) -> VersionRow:
    """A version as the store lists it."""
    return VersionRow(version=version, first_ns=first_ns, last_ns=last_ns, records=records)


class VersionsContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    def test_versions_are_listed_the_newest_first(self, store: AppendingStore) -> None:
        """With the moments of the first and the last evaluation, however many hours lie between."""
        append(store, "u1", "1", 7 * MINUTE_NS)
        append(store, "u2", "1", HOUR_NS + 5)
        append(store, "u3", "2", HOUR_NS + 9 * MINUTE_NS)
        append(store, "u4", "1", 3 * HOUR_NS + 2 * MINUTE_NS)
        append(store, "u5", "2", HOUR_NS + 10 * MINUTE_NS)
        append(
            store, "u6", "3", 5 * HOUR_NS, alias="others", profile_name="o", profile_uid="p2",
            profile_digest="d2",
        )  # fmt: skip
        append(store, "u7", "4", 5 * HOUR_NS, space="elsewhere")
        wanted = [
            row("2", HOUR_NS + 9 * MINUTE_NS, HOUR_NS + 10 * MINUTE_NS, 2),
            row("1", 7 * MINUTE_NS, 3 * HOUR_NS + 2 * MINUTE_NS, 3),
        ]
        for name in ("answers", "p1", "d1"):
            assert store.versions(SPACE, name) == wanted
        assert store.versions(SPACE, "o") == [row("3", 5 * HOUR_NS, 5 * HOUR_NS, 1)]
        assert store.versions(SPACE, "none") == []

    def test_records_of_a_version_are_those_of_its_fullest_task(
        self, store: AppendingStore
    ) -> None:
        """Of each version of the profile; a conversation counts where it has more than those."""
        for number in range(3):
            append(store, f"u{number}", "1", number, tasks="ab")
        append(store, "s1", "1", 9, tasks="c", scope=Scope.SESSION)
        append(store, "v1", "1", 5, tasks="b", profile_uid="p2", profile_digest="d2")
        assert store.versions(SPACE, "answers") == [row("1", 0, 9, 4)]

    def test_a_revision_counts_for_its_own_version(self, store: AppendingStore) -> None:
        """Nothing is left of the version before, once all of its records are judged again."""
        append(store, "u1", "1", MINUTE_NS)
        append(store, "u1", "2", HOUR_NS, revision=2)
        assert store.versions(SPACE, "answers") == [row("2", HOUR_NS, HOUR_NS, 1)]

    def test_of_many_versions_the_older_ones_have_their_hour(self, store: AppendingStore) -> None:
        """Seven, each a minute after the full hour; the moments of the newest five are found."""
        for hour in range(7):
            append(store, f"u{hour}", f"{hour}", hour * HOUR_NS + MINUTE_NS)
        moments = [
            row(f"{hour}", hour * HOUR_NS + MINUTE_NS, hour * HOUR_NS + MINUTE_NS, 1)
            for hour in (6, 5, 4, 3, 2)
        ]
        hours = [row(f"{hour}", hour * HOUR_NS, (hour + 1) * HOUR_NS - 1, 1) for hour in (1, 0)]
        assert store.versions(SPACE, "answers") == [*moments, *hours]

    @pytest.mark.parametrize(("records", "wanted"), [(19_998, "32"), (19_997, "321")])
    def test_what_lies_behind_20_000_records_is_left_out(
        self, store: AppendingStore, records: int, wanted: str
    ) -> None:
        """By whole hours; the two tasks of each are about the same records."""
        hours = enumerate([("1", 5), ("2", records), ("3", 1), ("3", 1)])
        rows = [
            (
                SPACE, hour * HOUR_NS, "p1", "d1", "answers", "answers", version, "", task, 0,
                "passed", 0, None, n,
            )
            for hour, (version, n) in hours
            for task in "ab"
        ]  # fmt: skip
        store.write({"rollups": rows})
        found = store.versions(SPACE, "answers")
        assert "".join(each.version for each in found) == wanted
        assert found[:2] == [
            row("3", 2 * HOUR_NS, 4 * HOUR_NS - 1, 2),
            row("2", HOUR_NS, 2 * HOUR_NS - 1, records),
        ]

    def test_a_span_tells_the_version_of_an_evaluation_that_knows_none(
        self, store: AppendingStore
    ) -> None:
        """Records without a known version are left out."""
        for number, version in ((1, "1"), (2, "2"), (3, "2")):
            resource = Resource(attributes={"service.version": version})
            spans = [span(number, trace_id=f"{number:032x}", resource=resource)]
            store.append_spans(SPACE, spans, 1).result()
        append(store, "u0", "1", MINUTE_NS)
        for number in (1, 2, 3, 4):
            append(store, f"u{number}", "", number * HOUR_NS, trace_id=f"{number:032x}")
        assert store.versions(SPACE, "answers") == [
            row("2", 2 * HOUR_NS, 3 * HOUR_NS, 2),
            row("1", MINUTE_NS, HOUR_NS, 2),
        ]

    @pytest.mark.parametrize("aliases", [[], ["answers"], ["answers", "twin"]])
    def test_outcomes_are_those_made_last(self, store: AppendingStore, aliases: list[str]) -> None:
        """Of a period, and of each record the latest; a name may be that of several aliases."""
        for alias in aliases:
            store.append_profile(profile(f"p of {alias}", alias=alias))
        for alias in aliases or ["answers"]:
            append(store, f"{alias} 1", "1", 50, alias=alias, tasks="cab")
            append(store, f"{alias} 2", "1", 40, alias=alias)
            append(store, f"{alias} 3", "1", 39, alias=alias)
            append(store, f"{alias} 4", "1", 70, alias=alias)
            append(store, f"{alias} 2", "1", 60, alias=alias, revision=2)
        append(store, "other", "1", 50, alias="other", profile_name="other")
        query = EvaluationQuery(space=SPACE, profile="answers", since_ns=40, until_ns=70, limit=9)
        found = store.outcomes(query)
        newest_first = ["twin", "answers"] if "twin" in aliases else ["answers"]
        assert [each.record_uid for each in found] == [
            f"{alias} {number}" for number in (2, 1) for alias in newest_first
        ]
        assert [task.task_id for task in found[-1].tasks] == ["c", "a", "b"]
        assert store.outcomes(replace(query, limit=1)) == found[:1]
        assert store.outcomes(replace(query, profile="none")) == []
