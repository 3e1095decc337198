"""Answers of every store about records, evaluations, sessions and time series.

Expected values are counted by hand, or by going through everything that was put in.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.store.evaluation_queries import EvaluationQuery, TaskValuesQuery
from collector.store.rates import SeriesQuery, TaskQuery
from collector.store.reads import NOT_PASSED
from collector.store.rows import EvaluationRow, TaskRow
from collector.store.totals import HOUR_NS
from scouter.evaluate.outcome import DECIDED, Outcome
from scouter.model.span import Resource
from tests.contracts.store_data import SPACE, TRACE, evaluation, span
from tests.contracts.store_opened import IN_CLASS, OpenedStore
from tests.support.store_appends import AppendingStore

_MINUTE_NS = HOUR_NS // 60


def uids_by_page(store: AppendingStore, query: EvaluationQuery) -> Iterator[str]:
    while True:
        page = store.evaluations(query)
        assert len(page.items) <= query.limit
        yield from (row.record_uid for row in page.items)
        if page.next_before is None:
            return
        query = replace(query, before=page.next_before)


def ended(wanted: str | None, outcome: Outcome) -> bool:
    """Tell whether an outcome is one that is requested."""
    is_bad = outcome in (Outcome.FAILED, Outcome.ERRORED)
    return is_bad if wanted == NOT_PASSED else wanted in (None, outcome)


class StoreListsContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    # --- evaluations ---------------------------------------------------------------------------

    @IN_CLASS
    @given(data=st.data())
    def test_a_listing_is_that_of_a_brute_force_filter(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        """Random evaluations and revisions, any filters, pages of one to three."""
        space = f"space {store.last_seq()}"  # one store for all examples
        words = st.sampled_from(["a", "b"])
        latest: dict[str, EvaluationRow] = {}
        for number in range(data.draw(st.integers(1, 9))):
            uid = f"{space} {data.draw(st.sampled_from('klmn'))}"
            before = latest.pop(uid, None)
            ids = data.draw(st.lists(words, unique=True, max_size=2))
            tasks = tuple(
                TaskRow(task_id=each, task_type="x", outcome=data.draw(st.sampled_from(Outcome)))
                for each in ids
            )
            latest[uid] = evaluation(
                uid, data.draw(st.sampled_from(Outcome)), tasks, space=space,
                revision=before.revision + 1 if before else 1, evaluation_id=f"{space} {number}",
                evaluated_ns=data.draw(st.integers(0, 3)), service_version=data.draw(words),
                record_id=data.draw(words), session_id=data.draw(words),
                tags={"key": data.draw(words)},
            )  # fmt: skip
            store.append_evaluations([latest[uid]]).result()
        filters: dict[str, Any] = {
            "outcome": data.draw(st.sampled_from((None, NOT_PASSED, *Outcome))),
            "task_id": data.draw(st.none() | words),
            "task_outcome": data.draw(st.sampled_from((None, NOT_PASSED, *Outcome))),
            "record_id": data.draw(st.none() | words),
            "session_id": data.draw(st.none() | words),
            "service_version": data.draw(st.none() | words),
            "tags": data.draw(st.just(()) | words.map(lambda word: (("key", word),))),
            "since_ns": data.draw(st.none() | st.integers(0, 3)),
            "until_ns": data.draw(st.none() | st.integers(0, 4)),
        }

        def is_wanted(row: EvaluationRow) -> bool:
            plain = ("record_id", "session_id", "service_version")
            given = {name: filters[name] for name in plain if filters[name] is not None}
            wants_task = filters["task_id"] is not None or filters["task_outcome"] is not None
            return (
                all(getattr(row, name) == value for name, value in given.items())
                and ended(filters["outcome"], row.outcome)
                and (filters["since_ns"] is None or row.evaluated_ns >= filters["since_ns"])
                and (filters["until_ns"] is None or row.evaluated_ns < filters["until_ns"])
                and set(filters["tags"]) <= set(row.tags.items())
                and (
                    not wants_task
                    or any(
                        filters["task_id"] in (None, task.task_id)
                        and ended(filters["task_outcome"], task.outcome)
                        for task in row.tasks
                    )
                )
            )

        query = EvaluationQuery(space=space, limit=data.draw(st.integers(1, 3)), **filters)
        wanted = [row.record_uid for row in reversed(latest.values()) if is_wanted(row)]
        assert list(uids_by_page(store, query)) == wanted
        newest = [latest[uid] for uid in wanted[: query.limit]]
        assert [
            (row.record_uid, row.outcome, row.tags, row.tasks) for row in store.outcomes(query)
        ] == [
            (
                row.record_uid,
                row.outcome,
                row.tags,
                tuple(
                    (each.task_id, each.task_type, each.outcome, each.reason, each.score)
                    for each in row.tasks
                ),
            )
            for row in newest
        ]

    def test_outcomes_are_those_of_the_evaluations(self, store: AppendingStore) -> None:
        """Scores and reasons come back, those of judges and of errored tasks too."""
        tasks = (
            TaskRow(task_id="holds", task_type="Assertion", outcome=Outcome.FAILED, actual=7),
            TaskRow(task_id="rates", task_type="LLMJudge", outcome=Outcome.PASSED, actual=0.75),
            TaskRow(
                task_id="votes", task_type="LLMJudge", outcome=Outcome.FAILED, stated_score=0.4
            ),
            TaskRow(
                task_id="breaks", task_type="Assertion", outcome=Outcome.ERRORED, reason="type"
            ),
        )
        rows = [
            evaluation(f"u{n}", Outcome.FAILED, tasks, evaluation_id=f"e{n}", trace_id=trace)
            for n, trace in enumerate((TRACE, None))
        ]
        store.append_evaluations(rows).result()
        found = store.outcomes(EvaluationQuery(space=SPACE))
        expected = (
            ("holds", "Assertion", Outcome.FAILED, None, 0.0),
            ("rates", "LLMJudge", Outcome.PASSED, None, 0.75),
            ("votes", "LLMJudge", Outcome.FAILED, None, 0.4),
            ("breaks", "Assertion", Outcome.ERRORED, "type", None),
        )
        same = ("record_uid", "record_id", "session_id", "trace_id", "created_ns", "duration_ns")
        for outcomes, row in zip(found, reversed(rows), strict=True):
            assert outcomes.tasks == expected
            assert outcomes.outcome is Outcome.FAILED
            assert all(getattr(outcomes, name) == getattr(row, name) for name in same)

    def test_many_superseded_evaluations_do_not_end_a_page(self, store: AppendingStore) -> None:
        """Thirty of thirty-one candidates are passed over before the one that counts."""
        rows = [evaluation(f"u{n}", Outcome.FAILED, evaluation_id=f"e{n}") for n in range(31)]
        store.append_evaluations(rows).result()
        again = [
            evaluation(f"u{n}", revision=2, evaluation_id=f"again {n}") for n in range(1, 31)
        ]  # fmt: skip
        store.append_evaluations(again).result()
        page = store.evaluations(EvaluationQuery(space=SPACE, outcome=Outcome.FAILED, limit=1))
        assert [row.record_uid for row in page.items] == ["u0"]
        assert page.next_before is None

    @pytest.mark.parametrize(
        ("tags", "pair", "is_found"),
        [
            ({"a": "b"}, ("a", "b"), True),
            ({"a": "b", "c": "d"}, ("c", "d"), True),
            ({"a": "bc"}, ("a", "b"), False),
            ({'x"a': "b"}, ("a", "b"), False),
            ({"k": 'z","a":"b'}, ("a", "b"), False),
            ({"k": "z,", ":": ":"}, (",", ":"), False),
            ({"é": "\x01\n"}, ("é", "\x01\n"), True),
            ({"é": "ü", "half": "\ud800"}, ("é", "ü"), True),
            ({}, ("a", ""), False),
        ],
    )
    def test_tags(
        self, store: AppendingStore, tags: dict[str, str], pair: tuple[str, str], is_found: bool
    ) -> None:
        """The texts have characters that JSON writes in its own way."""
        store.append_evaluations([evaluation(tags=tags)]).result()
        page = store.evaluations(EvaluationQuery(space=SPACE, tags=(pair,)))
        assert len(page.items) == is_found

    def test_the_service_of_an_evaluation_without_spans_is_that_of_its_trace(
        self, store: AppendingStore
    ) -> None:
        resource = Resource(
            attributes={
                "service.name": "shop", "service.version": "2", "deployment.environment.name": "x"
            }
        )  # fmt: skip
        store.append_spans(SPACE, [span(1, resource=resource)], 1).result()
        rows = [
            evaluation("no spans read", trace_id=TRACE, evaluation_id="e1"),
            evaluation("read", trace_id=TRACE, service_version="2", service_name="shop",
                    environment="x", reads_spans=True, evaluation_id="e2"),
            evaluation("other", trace_id="f" * 32, service_version="1", reads_spans=True,
                    evaluation_id="e3"),
            evaluation("no trace", evaluation_id="e4"),
        ]  # fmt: skip
        store.append_evaluations(rows).result()

        def uids(**filters: Any) -> list[str]:
            query = EvaluationQuery(space=SPACE, **filters)
            return [row.record_uid for row in store.evaluations(query).items]

        both = ["read", "no spans read"]
        assert uids(service_version="2") == both
        assert uids(service_name="shop", environment="x") == both
        assert uids(service_version="1") == ["other"]
        assert uids(service_name="shop", service_version="1") == []
        assert uids(environment="y") == []

    def test_an_evaluation_by_its_id_whatever_its_revision(self, store: AppendingStore) -> None:
        first = evaluation("u1", Outcome.FAILED, evaluation_id="e1")
        second = evaluation("u1", revision=2, evaluation_id="e2")
        for row in (first, second):
            store.append_evaluations([row]).result()
        assert store.evaluation(SPACE, "e1") == first
        assert store.evaluation(SPACE, "e2") == second
        assert store.evaluation(SPACE, "e3") is None
        assert store.evaluation("elsewhere", "e1") is None

    def test_the_evaluations_on_a_trace_are_the_latest_newest_first(
        self, store: AppendingStore
    ) -> None:
        """Of the newest rows only, where there are more than may be read."""
        rows = [evaluation(f"u{n}", trace_id=TRACE, evaluation_id=f"e{n}") for n in range(5)]
        again = replace(rows[1], revision=2, outcome=Outcome.FAILED, evaluation_id="again")
        others = [
            evaluation("other", trace_id="e" * 32, evaluation_id="other"),
            replace(rows[2], space="elsewhere", evaluation_id="elsewhere"),
            evaluation("none", evaluation_id="none"),
        ]
        for part in (rows[:3], [*others, again], rows[3:]):
            store.append_evaluations(part).result()
        wanted = (rows[4], rows[3], again, rows[2], rows[0])
        assert store.trace(SPACE, TRACE, 6).evaluations == wanted
        assert store.trace(SPACE, TRACE, 5).evaluations == wanted[:4]
        assert store.trace(SPACE, TRACE, 3).evaluations == wanted[:3]
        assert store.trace(SPACE, "d" * 32, 3).evaluations == ()

    def test_a_trace_is_its_spans_and_its_evaluations(self, store: AppendingStore) -> None:
        """Nothing of another space, nor of a trace whose id ends in the same way."""
        near, row = f"{'0' * 15}1{TRACE[16:]}", evaluation(trace_id=TRACE)
        mine = [span(1), span(2)]
        store.append_spans(SPACE, [*mine, span(3, trace_id=near)], 5).result()
        store.append_spans("it's", [span(4)], 5).result()
        store.append_evaluations([row, evaluation("u2", space="it's", trace_id=TRACE)]).result()
        found, other = store.trace(SPACE, TRACE, 9), store.trace("it's", TRACE, 9)
        assert sorted(found.spans, key=lambda each: each.span_id) == mine
        assert found.evaluations == (row,)
        assert other.spans == [span(4)]
        assert [each.record_uid for each in other.evaluations] == ["u2"]
        assert store.trace(SPACE, near, 9).spans == [span(3, trace_id=near)]
        absent = store.trace("nobody", TRACE, 9)
        assert (absent.spans, absent.evaluations) == ([], ())

    def test_pages_of_one_moment_hold_what_is_revised_meanwhile(
        self, store: AppendingStore
    ) -> None:
        rows = [evaluation(f"u{n}", evaluation_id=f"e{n}") for n in range(4)]
        store.append_evaluations(rows).result()
        query = EvaluationQuery(space=SPACE, limit=2)
        first = store.evaluations(query)
        again = evaluation("u0", Outcome.FAILED, revision=2, evaluation_id="again")
        store.append_evaluations([again]).result()
        second = store.evaluations(replace(query, before=first.next_before, as_of=first.as_of))
        assert [row.record_uid for row in first.items] == ["u3", "u2"]
        assert second.items == (rows[1], rows[0])
        assert list(uids_by_page(store, query)) == ["u0", "u3", "u2", "u1"]

    def test_a_record_is_listed_while_it_is_revised(self, store: AppendingStore) -> None:
        """Once each time, by its latest evaluation: never by none, never by two."""
        store.append_evaluations([evaluation("u0", evaluation_id="e1")]).result()
        done = threading.Event()

        def revise() -> None:
            for n in range(2, 150):
                store.append_evaluations(
                    [evaluation("u0", revision=n, evaluation_id=f"e{n}")]
                ).result()
            done.set()

        writer = threading.Thread(target=revise)
        writer.start()
        seen = list[int]()
        while not done.is_set():
            seen += [len(store.evaluations(EvaluationQuery(space=SPACE, record_id="u0")).items)]
        writer.join()
        assert set(seen) == {1}
        assert len(seen) > 10

    def test_evaluations_in_pages_of_bounded_bytes(self, store: AppendingStore) -> None:
        """Nine of three commits, each with a result of 10 kB, come four at a time at most."""
        long = TaskRow(task_id="t", task_type="A", outcome=Outcome.PASSED, actual="x" * 10_000)
        for start in (0, 3, 6):
            rows = [evaluation(f"u{n}", tasks=(long,)) for n in range(start, start + 3)]
            store.append_evaluations(rows).result()
        whole = store.evaluations(EvaluationQuery(space=SPACE)).items
        found: list[EvaluationRow] = []
        query = EvaluationQuery(space=SPACE, text_bytes=1)
        while True:
            page = store.evaluations(query)
            assert len(page.items) <= 4
            found += page.items
            if page.next_before is None:
                break
            query = replace(query, before=page.next_before)
        assert tuple(found) == whole
        assert len(found) == 9

    # --- time series ------------------------------------------------------------------------

    @IN_CLASS
    @given(data=st.data())
    def test_a_series_is_that_of_a_brute_force_count(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        """Evaluations and revisions over five hours, between any two times, in any buckets.

        Buckets of whole hours are read from the rollups, the others from the results.
        """
        space = f"space {store.last_seq()}"  # one store for all examples
        times = st.integers(0, 5 * 4).map(lambda quarters: quarters * HOUR_NS // 4)
        latest: dict[str, EvaluationRow] = {}
        for number in range(data.draw(st.integers(1, 10))):
            uid = data.draw(st.sampled_from("abcd"))
            before = latest.get(uid)
            tasks = tuple(
                TaskRow(
                    task_id=name, task_type="x", outcome=data.draw(st.sampled_from(Outcome)),
                    reason=data.draw(st.sampled_from([None, "gate", "budget"])),
                )
                for name in ("t1", "t2")
            )  # fmt: skip
            latest[uid] = evaluation(
                uid, tasks=tasks, space=space, revision=before.revision + 1 if before else 1,
                evaluation_id=f"{space} {number}", evaluated_ns=data.draw(times),
                profile_uid=f"p {uid > 'b'}",
                service_version=data.draw(st.sampled_from(["1", "2"])),
            )  # fmt: skip
            store.append_evaluations([latest[uid]]).result()
        task_id = data.draw(st.sampled_from([None, "t1", "t2"]))
        version = data.draw(st.sampled_from([None, None, "1"]))
        since_ns, until_ns = sorted([data.draw(times), data.draw(times)])
        bucket_ns = data.draw(
            st.sampled_from([_MINUTE_NS, 45 * _MINUTE_NS, HOUR_NS, 2 * HOUR_NS, 24 * HOUR_NS])
        )
        series = SeriesQuery(
            space=space, task_id=task_id, service_version=version, since_ns=since_ns,
            until_ns=until_ns, bucket_ns=bucket_ns,
        )  # fmt: skip
        found = store.task_series(series)

        wanted: Counter[tuple[int, str, str, str]] = Counter()
        for row in latest.values():
            if not since_ns <= row.evaluated_ns < until_ns:
                continue
            if version is not None and row.service_version != version:
                continue
            for task in row.tasks:
                if task_id in (None, task.task_id) and task.outcome in DECIDED:
                    start_ns = row.evaluated_ns - row.evaluated_ns % bucket_ns
                    key = start_ns, row.profile_uid, task.task_id
                    wanted[*key, task.outcome.value] += 1
                    if task.outcome is Outcome.SKIPPED and task.reason == "gate":
                        wanted[*key, "gated"] += 1
        got = Counter(
            {
                (each.start_ns, each.counts.profile_uid, each.counts.task_id, name): getattr(
                    each.counts, name
                )
                for each in found
                for name in (*(word.value for word in DECIDED), "gated")
            }
        )
        assert +got == wanted
        rated = (Outcome.PASSED.value, Outcome.FAILED.value, Outcome.ERRORED.value, "gated")
        rates: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}
        for start_ns, uid, name in sorted({key[:3] for key in wanted}):
            at = start_ns, uid, name
            if total := sum(wanted[*at, word] for word in rated):
                line = rates.setdefault((uid, name), {})
                line[start_ns] = wanted[*at, Outcome.PASSED.value], total
        lines = {
            (each.profile_uid, each.task_id): [
                *zip(each.start_ns, each.passed, each.total, strict=True)
            ]
            for each in store.rate_lines(series)
        }
        assert lines == {
            key: [(start_ns, *counts) for start_ns, counts in line.items()]
            for key, line in rates.items()
        }
        counted = TaskQuery(
            space=space, service_version=version, since_ns=since_ns, until_ns=until_ns
        )
        moments = [
            row.evaluated_ns
            for row in latest.values()
            if since_ns <= row.evaluated_ns < until_ns
            and version in (None, row.service_version)
            and any(task.outcome in DECIDED for task in row.tasks)
        ]
        extent = store.extent(counted, 10**6)
        assert (extent and extent.first_ns) == min(moments, default=None)
        places = [(each.start_ns, each.counts.task_id) for each in found]
        assert places == sorted(places)
        assert len(set((each.start_ns, each.counts.profile_uid, each.counts.task_id)
                       for each in found)) == len(found)  # fmt: skip

    def test_results_of_an_environment_are_counted_alone(self, store: AppendingStore) -> None:
        """Of one that looked at no spans, the environment is that of its trace."""
        process = {"service.version": "2", "deployment.environment.name": "prod"}
        resource = Resource(attributes=process)
        store.append_spans(SPACE, [span(1, resource=resource, end_ns=30)], 1).result()
        rows = [
            evaluation("prod 1", environment="prod", service_version="1", evaluation_id="e1"),
            evaluation("prod 2", trace_id=TRACE, evaluation_id="e2"),
            evaluation("test 2", environment="test", service_version="2", evaluation_id="e3"),
        ]
        store.append_evaluations(rows).result()
        took = span(1).start_ns
        cases: list[tuple[dict[str, Any], int]] = [
            ({"environment": "prod"}, 2),
            ({"environment": "test"}, 1),
            ({"environment": "prod", "service_version": "2"}, 1),
            ({"environment": "test", "service_version": "1"}, 0),
            ({}, 3),
        ]
        for filters, count in cases:
            counts = store.task_counts(TaskQuery(space=SPACE, **filters))
            assert sum(each.passed for each in counts) == count, filters
            series = SeriesQuery(
                space=SPACE, since_ns=0, until_ns=HOUR_NS, bucket_ns=HOUR_NS, **filters
            )
            assert [each.counts for each in store.task_series(series)] == counts
            of_values = TaskValuesQuery(space=SPACE, profile="answers", task_id="t1", **filters)
            values = store.task_values(of_values)
            assert len(values) == count, filters
            spans = [each.duration_ns for each in values if each.duration_ns is not None]
            assert set(spans) <= {30 - took}

    def test_versions_of_tasks_whose_trace_no_span_is_stored_of(
        self, store: AppendingStore
    ) -> None:
        store.append_evaluations([evaluation("u1", trace_id=TRACE)]).result()
        query = TaskQuery(space=SPACE, service_version="2")
        assert store.task_counts(query) == []
        resource = Resource(attributes={"service.version": "2"})
        store.append_spans(SPACE, [span(1, resource=resource)], 1).result()
        (counts,) = store.task_counts(query)
        assert counts.passed == 1
        series = SeriesQuery(
            space=SPACE, service_version="2", since_ns=0, until_ns=HOUR_NS, bucket_ns=HOUR_NS
        )
        assert [each.counts for each in store.task_series(series)] == [counts]
