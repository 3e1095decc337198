"""The lists of evaluations and the counts of results, on both databases."""

from pathlib import Path

import pytest

from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import EvaluationRow, TaskRow
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, evaluation
from tests.contracts.store_facets import StoreFacetsContract
from tests.contracts.store_lists import StoreListsContract
from tests.contracts.store_newest import NewestContract
from tests.contracts.store_reading import ReadingContract
from tests.contracts.store_setups import SetupsContract
from tests.contracts.store_versions import VersionsContract
from tests.support.store_appends import AppendingStore


class TestLists(StoreListsContract):
    """Lists, series and rates."""


class TestFacets(StoreFacetsContract):
    """Counts of evaluations beside their list."""


class TestReading(ReadingContract):
    """Filters and counts."""


class TestNewest(NewestContract):
    """The newest results of a task."""


class TestSetups(SetupsContract):
    """The contract of what records ran with."""


class TestVersions(VersionsContract):
    """Versions of the service."""


@pytest.mark.parametrize(
    ("task_failed", "named"),
    [(2, 1000), (1000, 2), (7, 11), (2, 2)],
    ids=["a rare value", "a rare task", "both rare", "both common"],
)
def test_a_task_with_a_value_is_found_whichever_is_rare(
    tmp_path: Path, task_failed: int, named: int
) -> None:
    """Of 1,250 evaluations, page by page; every fifth was judged again, and passed then."""
    store = AppendingStore(tmp_path / "data")
    latest: list[EvaluationRow] = []

    def judged(number: int, outcome: Outcome, revision: int) -> EvaluationRow:
        name = "named" if number % named == 1 else f"other {number}"
        return evaluation(
            f"u{number}", revision=revision, evaluation_id=f"{number} {revision}", record_id=name,
            tasks=(TaskRow(task_id="t1", task_type="x", outcome=outcome),), was_decided=False,
        )  # fmt: skip

    for first in range(0, 1250, 250):
        numbers = range(first, first + 250)
        rows = [
            judged(n, Outcome.FAILED if n % task_failed == 1 else Outcome.PASSED, 1)
            for n in numbers
        ]
        store.append_evaluations(rows).result()
        again = [judged(n, Outcome.PASSED, 2) for n in numbers if n % 5 == 0]
        store.append_evaluations(again).result()
        latest += [row for n, row in zip(numbers, rows, strict=True) if n % 5] + again
    wanted = [
        row.record_uid
        for row in reversed(latest)
        if row.record_id == "named" and row.tasks[0].outcome is Outcome.FAILED
    ]
    found: list[str] = []
    before = None
    while True:
        query = EvaluationQuery(
            space=SPACE, task_id="t1", task_outcome=Outcome.FAILED, record_id="named", limit=7,
            before=before,
        )  # fmt: skip
        page = store.evaluations(query)
        found += [row.record_uid for row in page.items]
        before = page.next_before
        if before is None:
            break
    store.close()
    assert found == wanted
    assert wanted
