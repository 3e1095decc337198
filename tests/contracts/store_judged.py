"""Answers of every store about traces by the evaluations on their records."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.store.rows import EvaluationRow, TaskRow
from collector.store.span_queries import JudgedBy, TraceQuery
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, evaluation, span
from tests.support.store_appends import AppendingStore

NAMES = st.sampled_from("ab")
OUTCOMES = st.sampled_from(Outcome)


def meets(row: EvaluationRow, judged: JudgedBy) -> bool:
    """The filter, read once more."""
    wanted = (judged.task_id, judged.task_outcome)
    return (
        judged.profile in (None, row.alias)
        and judged.outcome in (None, row.outcome)
        and dict(judged.tags).items() <= row.tags.items()
        and (
            wanted == (None, None)
            or any(
                wanted[0] in (None, each.task_id) and wanted[1] in (None, each.outcome)
                for each in row.tasks
            )
        )
    )


class StoreJudgedContract:
    """Subclass it and give the fixture `open_store`."""

    @pytest.fixture
    def store(self, open_store: Callable[[], AppendingStore]) -> Iterator[AppendingStore]:
        store = open_store()
        yield store
        store.close()

    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
            HealthCheck.differing_executors,
        ],
    )
    @given(data=st.data())
    def test_traces_are_those_of_a_brute_force(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        """Evaluations and revisions on three traces, before and after their spans."""
        space = f"space {store.last_seq()}"  # one store for all examples
        latest: dict[str, EvaluationRow] = {}
        newest: list[str] = []
        for number in range(1, data.draw(st.integers(1, 12))):
            trace_id = f"{data.draw(st.integers(1, 3)):032x}"
            if data.draw(st.booleans()):
                store.append_spans(space, [span(number, trace_id=trace_id)], number).result()
                newest = [trace_id, *(each for each in newest if each != trace_id)]
                continue
            uid = f"{space} {trace_id} {data.draw(NAMES)}"
            tasks = tuple(
                TaskRow(task_id=each, task_type="x", outcome=data.draw(OUTCOMES))
                for each in data.draw(st.sets(NAMES))
            )
            row = evaluation(
                uid, data.draw(OUTCOMES), tasks, space=space, evaluation_id=f"{space} {number}",
                revision=latest[uid].revision + 1 if uid in latest else 1, trace_id=trace_id,
                alias=data.draw(NAMES), profile_uid="", profile_name="",
                tags=data.draw(st.dictionaries(NAMES, NAMES, max_size=2)),
            )  # fmt: skip
            store.append_evaluations([row]).result()
            latest[uid] = row
        for _ in range(4):
            tags = data.draw(st.dictionaries(NAMES, NAMES, max_size=2))
            judged = JudgedBy(
                profile=data.draw(st.none() | NAMES),
                outcome=data.draw(st.none() | OUTCOMES),
                task_id=data.draw(st.none() | NAMES),
                task_outcome=data.draw(st.none() | OUTCOMES),
                tags=tuple(tags.items()) if data.draw(st.booleans()) else (),
            )
            found = {row.trace_id for row in latest.values() if meets(row, judged)}
            query = TraceQuery(space=space, judged=judged, limit=1)
            pages: list[str] = []
            while (page := store.traces(query)).next_before is not None:
                pages += [each.trace_id for each in page.items]
                query = replace(query, before=page.next_before, as_of=page.as_of)
            pages += [each.trace_id for each in page.items]
            for item in page.items:
                own = [row for row in latest.values() if row.trace_id == item.trace_id]
                assert (item.records is None) is (not own)
                if item.records is not None:
                    assert item.records.count == len(own)
                    assert set(item.records.outcomes) == {row.outcome for row in own}
                    assert item.records.uid in {row.record_uid for row in own}
            assert pages == [each for each in newest if each in found]

    @pytest.mark.parametrize(
        ("tags", "wanted", "is_found"),
        [
            ({"k": "v"}, ("k", "v"), True),
            ({"a": "b", "k": "v"}, ("k", "v"), True),
            ({"ak": "v"}, ("k", "v"), False),
            ({"k": "vv"}, ("k", "v"), False),
            ({'a"k': "v"}, ("k", "v"), False),
            ({"a": '","k":"v'}, ("k", "v"), False),
            ({"a": '{"k":"v"}'}, ("k", "v"), False),
            ({"é": "☃"}, ("é", "☃"), True),
            ({"é": "☃", "half": "\ud800"}, ("é", "☃"), True),
            ({'"': "\\"}, ('"', "\\"), True),
        ],
    )
    def test_a_tag_is_no_part_of_another(
        self, store: AppendingStore, tags: dict[str, str], wanted: tuple[str, str], is_found: bool
    ) -> None:
        row = evaluation(trace_id=f"{1:032x}", tags=tags)
        store.append_spans(SPACE, [span(1, trace_id=f"{1:032x}")], 1).result()
        store.append_evaluations([row]).result()
        query = TraceQuery(space=SPACE, judged=JudgedBy(tags=(wanted,)))
        assert len(store.traces(query).items) == is_found
