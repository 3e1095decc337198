"""Answers of every store about the counts beside lists.

The law: a value's count is the length of the list that has the value as a further filter.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.store.evaluation_queries import EvaluationQuery
from collector.store.reads import NOT_PASSED
from collector.store.rows import TaskRow
from collector.store.span_queries import JudgedBy, TraceQuery
from scouter.evaluate.outcome import Outcome
from scouter.model.span import Resource, StatusCode
from tests.contracts.store_data import SPACE, evaluation, span
from tests.contracts.store_opened import IN_CLASS, OpenedStore
from tests.support.store_appends import AppendingStore

_COLUMNS = ("service_name", "service_version", "tool_name", "agent_name", "error_type")
WORDS = st.sampled_from(["", "a", "b"])


def lengths(
    names: Mapping[str, Callable[[str], int]], values: Mapping[str, list[str]]
) -> dict[str, dict[str, int]]:
    """Lengths of the lists that each value leaves, without the empty ones."""
    found = {
        name: {value: names[name](value) for value in values[name] if names[name](value)}
        for name in names
    }
    return {name: counts for name, counts in found.items() if counts}


def evaluate_some(store: AppendingStore, data: st.DataObject, space: str) -> JudgedBy:
    """Random evaluations and revisions on four traces; a filter by some of what they tell."""
    revisions: dict[str, int] = {}
    for number in range(data.draw(st.integers(0, 5))):
        uid = f"{space} {data.draw(st.sampled_from('klm'))}"
        revisions[uid] = revisions.get(uid, 0) + 1
        tasks = tuple(
            TaskRow(task_id=each, task_type="x", outcome=data.draw(st.sampled_from(Outcome)))
            for each in data.draw(st.sets(st.sampled_from("ab")))
        )
        row = evaluation(
            uid, data.draw(st.sampled_from(Outcome)), tasks, space=space, revision=revisions[uid],
            evaluation_id=f"{space} {number}", alias=data.draw(st.sampled_from("ab")),
            profile_uid="", profile_name="", trace_id=f"{data.draw(st.integers(1, 4)):032x}",
            tags={"k": data.draw(WORDS)},
        )  # fmt: skip
        store.append_evaluations([row]).result()
    maybe = st.none() | st.sampled_from("ab")
    return JudgedBy(
        profile=data.draw(maybe),
        outcome=data.draw(st.none() | st.sampled_from(Outcome)),
        task_id=data.draw(maybe),
        task_outcome=data.draw(st.none() | st.sampled_from(Outcome)),
        tags=data.draw(st.just(()) | WORDS.map(lambda word: (("k", word),))),
    )


_SHOP = Resource(attributes={"service.name": "shop"})


class TraceFacetsContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    @IN_CLASS
    @given(data=st.data())
    def test_a_count_of_traces_is_the_length_of_the_list(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        space = f"space {store.last_seq()}"
        for number in range(data.draw(st.integers(1, 10))):
            resource = {"service.name": data.draw(WORDS), "service.version": data.draw(WORDS)}
            attributes: dict[str, Any] = {
                "gen_ai.operation.name": data.draw(st.sampled_from(["chat", "execute_tool"])),
                "gen_ai.tool.name": data.draw(WORDS), "gen_ai.agent.name": data.draw(WORDS),
                "error.type": data.draw(WORDS),
            }  # fmt: skip
            row = span(
                number, trace_id=f"{data.draw(st.integers(1, 4)):032x}", name="a",
                resource=Resource(attributes=resource), attributes=attributes,
                status=data.draw(st.sampled_from(StatusCode)), start_ns=number,
                end_ns=number + data.draw(st.integers(0, 3)),
            )  # fmt: skip
            store.append_spans(space, [row], number).result()
        judged = evaluate_some(store, data, space)
        given_columns = {name: data.draw(st.none() | st.sampled_from("ab")) for name in _COLUMNS}
        query = TraceQuery(
            space=space, status=data.draw(st.none() | st.sampled_from(StatusCode)),
            columns={name: value for name, value in given_columns.items() if value},
            min_duration_ns=data.draw(st.none() | st.integers(0, 3)),
            since_ns=data.draw(st.none() | st.integers(0, 10)),
            judged=data.draw(st.none() | st.just(judged)), is_same_span=data.draw(st.booleans()),
            without_tool=data.draw(st.none() | st.sampled_from("ab")),
        )  # fmt: skip

        def of_column(name: str) -> Callable[[str], int]:
            def count(value: str) -> int:
                if query.columns.get(name) not in (None, value):
                    return 0
                columns = {**query.columns, name: value}
                return len(store.traces(replace(query, columns=columns)).items)

            return count

        def of_status(value: str) -> int:
            status = StatusCode[value.upper()]
            if query.status not in (None, status):
                return 0
            return len(store.traces(replace(query, status=status)).items)

        def of_judged(name: str) -> Callable[[str], int]:
            def count(value: str) -> int:
                before = query.judged or JudgedBy()
                chosen = Outcome(value) if name == "outcome" else value
                if getattr(before, name) not in (None, chosen):
                    return 0
                return len(
                    store.traces(replace(query, judged=replace(before, **{name: chosen}))).items
                )

            return count

        def of_tag(text: str) -> int:
            before = query.judged or JudgedBy()
            key, _, value = text.partition("=")
            tags = (*before.tags, (key, value))
            return len(store.traces(replace(query, judged=replace(before, tags=tags))).items)

        wanted = lengths(
            {
                "status": of_status,
                "tag": of_tag,
                **{name: of_column(name) for name in _COLUMNS},
                **{name: of_judged(name) for name in ("profile", "outcome", "task_id")},
            },
            {
                "status": [each.name.lower() for each in StatusCode],
                "tag": ["k=", "k=a", "k=b"],
                "profile": ["a", "b"],
                "task_id": ["a", "b"],
                "outcome": [each.value for each in Outcome],
                **{name: ["a", "b"] for name in _COLUMNS},
            },
        )
        found = store.trace_facets(query, lambda _: False)
        assert found.looked_until_ns is None
        assert found.counts == wanted

    def test_columns_of_many_values_are_counted(self, store: AppendingStore) -> None:
        """A hundred traces of two spans: 70 tools, 40 agents and 30 versions in turn."""
        rows = [
            span(
                number, trace_id=f"{trace:032x}",
                resource=Resource(attributes={"service.version": f"v{trace % 30}"}),
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": f"tool {trace % 70}",
                    "gen_ai.agent.name": f"agent {trace % 40}",
                },
                status=StatusCode.ERROR if number % 2 else StatusCode.UNSET,
            )
            for trace in range(1, 101)
            for number in (2 * trace, 2 * trace + 1)
        ]  # fmt: skip
        store.append_spans(SPACE, rows, 1).result()
        found = store.trace_facets(TraceQuery(space=SPACE), lambda _: False).counts
        assert found["tool_name"] == {f"tool {n}": 2 if 1 <= n <= 30 else 1 for n in range(70)}
        assert found["agent_name"] == {f"agent {n}": 3 if 1 <= n <= 20 else 2 for n in range(40)}
        assert found["service_version"] == {f"v{n}": 4 if 1 <= n <= 10 else 3 for n in range(30)}
        assert found["status"] == {"unset": 100, "error": 100}

    def test_counts_of_traces_end_before_a_step_that_is_too_long(
        self, store: AppendingStore
    ) -> None:
        """In 40 commits of 150 traces each."""
        for commit in range(1, 41):
            rows = [
                span(n, trace_id=f"{n:032x}", resource=_SHOP)
                for n in range(150 * commit, 150 * commit + 150)
            ]
            store.append_spans(SPACE, rows, 1000 + commit).result()
        growths: list[float] = []

        def end(growth: float) -> bool:
            growths.append(growth)
            return True

        found = store.trace_facets(TraceQuery(space=SPACE), end)
        counted = found.counts["service_name"]["shop"]
        assert 2000 <= counted < 6000
        assert found.looked_until_ns == 1041 - counted / 150
        assert min(growths) >= 1
        assert store.trace_facets(TraceQuery(space="other"), end).counts == {}


class StoreFacetsContract(TraceFacetsContract):
    """Subclass it and give the fixture `open_store`."""

    @IN_CLASS
    @given(data=st.data())
    def test_a_count_of_evaluations_is_the_length_of_the_list(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        """Random evaluations, revisions and spans that tell a service; any filters."""
        space = f"space {store.last_seq()}"  # one store for all examples
        revisions: dict[str, int] = {}
        for number in range(data.draw(st.integers(1, 8))):
            trace_id = f"{number % 3 + 1:032x}"
            if data.draw(st.booleans()):
                resource = {"service.name": data.draw(WORDS), "service.version": data.draw(WORDS)}
                row = span(number, trace_id=trace_id, resource=Resource(attributes=resource))
                store.append_spans(space, [row], number).result()
            uid = f"{space} {data.draw(st.sampled_from('klm'))}"
            revisions[uid] = revisions.get(uid, 0) + 1
            ids = data.draw(st.lists(st.sampled_from("ab"), unique=True, max_size=2))
            outcomes = st.sampled_from(Outcome)
            tasks = tuple(
                TaskRow(task_id=i, task_type="x", outcome=data.draw(outcomes)) for i in ids
            )
            row = evaluation(
                uid, data.draw(outcomes), tasks, space=space, revision=revisions[uid],
                evaluation_id=f"{space} {number}", alias=data.draw(st.sampled_from("ab")),
                profile_uid=f"{space} {data.draw(st.sampled_from('pq'))}",
                trace_id=data.draw(st.none() | st.just(trace_id)), evaluated_ns=number,
                reads_spans=data.draw(st.booleans()), service_name=data.draw(WORDS),
                service_version=data.draw(WORDS), tags={"k": data.draw(WORDS)},
            )  # fmt: skip
            store.append_evaluations([row]).result()
        name = st.none() | st.sampled_from("ab")
        filters: dict[str, Any] = {
            "outcome": data.draw(st.sampled_from((None, NOT_PASSED, *Outcome))),
            "task_id": data.draw(name), "service_name": data.draw(name),
            "task_outcome": data.draw(st.sampled_from((None, NOT_PASSED, *Outcome))),
            "service_version": data.draw(name),
            "since_ns": data.draw(st.none() | st.integers(0, 8)),
            "tags": data.draw(st.just(()) | WORDS.map(lambda word: (("k", word),))),
        }  # fmt: skip
        query = EvaluationQuery(space=space, limit=100, **filters)

        def length(field: str) -> Callable[[str], int]:
            def count(value: str) -> int:
                chosen = Outcome(value) if field == "outcome" else value
                has_bad = field == "outcome" and query.outcome == NOT_PASSED
                known = (Outcome.FAILED, Outcome.ERRORED) if has_bad else (None, chosen)
                if (chosen if has_bad else filters.get(field)) not in known:
                    return 0  # both cannot be requested at once
                return len(store.evaluations(replace(query, **{field: chosen})).items)

            return count

        def tagged(text: str) -> int:
            key, _, value = text.partition("=")
            chosen = (*query.tags, (key, value))
            return len(store.evaluations(replace(query, tags=chosen)).items)

        fields = ("profile", "task_id", "service_name", "service_version")
        wanted = lengths(
            {"tag": tagged, **{name: length(name) for name in ("outcome", *fields)}},
            {
                "tag": ["k=", "k=a", "k=b"],
                "outcome": [each.value for each in Outcome],
                **{name: ["a", "b"] for name in fields},
            },
        )
        found = store.evaluation_facets(query, lambda _: False)
        assert found.looked_until_ns is None
        assert found.counts == wanted

    def test_counts_that_end_early_say_how_far_they_looked(self, store: AppendingStore) -> None:
        """Some of the newest of 6,000 evaluations, in 40 commits.

        Those of another space came before, and are not reached: that is no whole answer.
        """
        store.append_evaluations([evaluation("early", space="early", evaluated_ns=7)]).result()
        for first in range(0, 6000, 150):
            rows = [
                evaluation(f"u{n}", evaluation_id=f"e{n}", evaluated_ns=n)
                for n in range(first, first + 150)
            ]
            store.append_evaluations(rows).result()
        query = EvaluationQuery(space=SPACE)
        found = store.evaluation_facets(query, lambda _: True)
        counted = found.counts["outcome"]["passed"]
        assert 2000 <= counted < 6000
        assert found.looked_until_ns == 6000 - counted
        whole = store.evaluation_facets(query, lambda _: False)
        assert whole.counts["outcome"] == {"passed": 6000}
        assert whole.looked_until_ns is None
        early = store.evaluation_facets(replace(query, space="early"), lambda _: True)
        assert (early.counts, early.looked_until_ns) == ({}, 7)
        none = store.evaluation_facets(replace(query, space="none"), lambda _: True)
        assert (none.counts, none.looked_until_ns) == ({}, None)
