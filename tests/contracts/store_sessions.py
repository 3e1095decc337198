"""Answers of every store about sessions by conditions on the whole of them.

Expected values come from going through everything that was put in, once more by other means.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.store.record_queries import SessionQuery
from collector.store.rows import EvaluationRow, RecordRow, Scope, TaskRow
from scouter.evaluate.outcome import Outcome
from scouter.model.span import Span
from tests.contracts.store_data import SPACE, evaluation, record, span
from tests.support.store_appends import AppendingStore

_IN_CLASS = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.differing_executors,
    ],
)
NAMES = st.sampled_from("ab")
MAYBE = st.none() | NAMES
OUTCOMES = st.sampled_from(Outcome)
SAID = st.sampled_from(["The red one", "blue"])


@dataclass
class Life:
    """Everything that was put in."""

    records: list[RecordRow] = field(default_factory=list[RecordRow])
    latest: dict[str, EvaluationRow] = field(default_factory=dict[str, EvaluationRow])
    """By the uid of the record, or of the session's own evaluations."""
    spans: list[Span] = field(default_factory=list[Span])

    def of(self, session_id: str) -> "Life":
        """The part that belongs to a session."""
        records = [each for each in self.records if (each.session_id or each.uid) == session_id]
        own = {each.uid for each in records}
        latest = {
            uid: each
            for uid, each in self.latest.items()
            if uid in own or (each.scope is Scope.SESSION and each.session_id == session_id)
        }
        traces = {each.trace_id for each in records}
        return Life(records, latest, [each for each in self.spans if each.trace_id in traces])

    def outcomes(self) -> set[Outcome]:
        """All outcomes by which a session is found."""
        outcomes = [each.outcome for each in self.latest.values()]
        outcomes += [Outcome.PENDING for each in self.records if each.uid not in self.latest]
        bad = {Outcome.FAILED, Outcome.ERRORED, Outcome.PENDING} & set(outcomes)
        if bad:
            return bad
        return {Outcome.PASSED if Outcome.PASSED in outcomes else Outcome.SKIPPED}

    def matches(self, query: SessionQuery) -> bool:
        """The conditions on a whole session."""
        results = [task for each in self.latest.values() for task in each.tasks]
        first = min((each.start_ns for each in self.spans), default=0)
        last = max((each.end_ns for each in self.spans), default=0)
        return (
            (query.outcome is None or query.outcome in self.outcomes())
            and (
                (query.task_id, query.task_outcome) == (None, None)
                or any(
                    query.task_id in (None, each.task_id)
                    and query.task_outcome in (None, each.outcome)
                    for each in results
                )
            )
            and any(dict(query.tags).items() <= each.tags.items() for each in self.records)
            and (query.tool_name is None or query.tool_name in self.values_of("gen_ai.tool.name"))
            and (
                query.response_model is None
                or query.response_model in self.values_of("gen_ai.response.model")
            )
            and (
                query.min_duration_ns is None
                or (bool(self.spans) and last - first >= query.min_duration_ns)
            )
            and (query.min_tokens is None or (bool(self.spans) and self.tokens >= query.min_tokens))
        )

    def values_of(self, key: str) -> set[str]:
        return {str(each.attributes.get(key)) for each in self.spans}

    @property
    def tokens(self) -> int:
        used = (each.attributes.get("gen_ai.usage.input_tokens", 0) for each in self.spans)
        return sum(each for each in used if isinstance(each, int))


def _draw_span(data: st.DataObject, number: int, trace_id: str) -> Span:
    """A tool, a call of a model, or neither."""
    kind = data.draw(st.sampled_from(["tool", "chat", "other"]))
    attributes: dict[str, Any] = {}
    if kind == "tool":
        attributes = {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": data.draw(NAMES),
        }  # fmt: skip
    elif kind == "chat":
        attributes = {
            "gen_ai.operation.name": "chat", "gen_ai.response.model": data.draw(NAMES),
            "gen_ai.usage.input_tokens": data.draw(st.integers(0, 4)),
        }  # fmt: skip
    start = data.draw(st.integers(0, 9))
    end = start + data.draw(st.integers(0, 3))
    attributes["said"] = data.draw(SAID)
    return span(number, trace_id=trace_id, start_ns=start, end_ns=end, attributes=attributes)


def put_in(store: AppendingStore, data: st.DataObject, space: str) -> Life:
    """Random records, spans, evaluations and revisions, each in a commit of its own."""
    life = Life()
    for number in range(1, data.draw(st.integers(1, 14))):
        what = data.draw(st.sampled_from(["record", "record", "spans", "evaluation", "session"]))
        trace_id = f"{data.draw(st.integers(1, 4)):032x}"
        if what == "spans":
            row = _draw_span(data, number, trace_id)
            store.append_spans(space, [row], number).result()
            life.spans.append(row)
        elif what == "record":
            row = record(
                f"{space} {number}", space=space, alias=data.draw(NAMES), profile_uid="",
                session_id=data.draw(st.sampled_from(["", "s", "t"])), received_ns=number,
                trace_id=data.draw(st.none() | st.just(trace_id)), profile_name="",
                tags=data.draw(st.dictionaries(NAMES, NAMES, max_size=2)),
                context={"said": data.draw(SAID)},
            )  # fmt: skip
            store.append_records([row]).result()
            life.records.append(row)
        elif life.records:
            about = data.draw(st.sampled_from(life.records))
            session_id = about.session_id or about.uid
            uid = about.uid if what == "evaluation" else f"{space} session {session_id}"
            before = life.latest.get(uid)
            tasks = tuple(
                TaskRow(task_id=each, task_type="x", outcome=data.draw(OUTCOMES))
                for each in data.draw(st.sets(NAMES))
            )
            row = evaluation(
                uid, data.draw(OUTCOMES), tasks, space=space, evaluation_id=f"{space} {number}",
                session_id=about.session_id if what == "evaluation" else session_id,
                scope=Scope.RECORD if what == "evaluation" else Scope.SESSION,
                revision=1 if before is None else before.revision + 1,
            )  # fmt: skip
            store.append_evaluations([row]).result()
            life.latest[uid] = row
    return life


def draw_query(data: st.DataObject, space: str) -> SessionQuery:
    """Some conditions, most of them none."""
    tags = data.draw(st.dictionaries(NAMES, NAMES, max_size=2))
    return SessionQuery(
        space=space,
        limit=data.draw(st.integers(1, 3)),
        profile=data.draw(MAYBE),
        since_ns=data.draw(st.none() | st.integers(0, 9)),
        outcome=data.draw(st.none() | OUTCOMES),
        task_id=data.draw(MAYBE),
        task_outcome=data.draw(st.none() | OUTCOMES),
        tags=tuple(tags.items()) if data.draw(st.booleans()) else (),
        tool_name=data.draw(MAYBE),
        response_model=data.draw(MAYBE),
        min_duration_ns=data.draw(st.none() | st.integers(0, 9)),
        min_tokens=data.draw(st.none() | st.integers(0, 6)),
    )


def listed(
    store: AppendingStore, query: SessionQuery, is_over: Callable[[], bool], text: str = ""
) -> list[str]:
    """All pages."""
    found: list[str] = []
    while True:
        page = store.sessions(query, is_over, [text] if text else [])
        found += [each.session_id for each in page.items]
        assert len(page.items) <= query.limit
        if page.next_before is None:
            return found
        query = replace(query, before=page.next_before, as_of=page.as_of)


def wanted(life: Life, query: SessionQuery, text: str = "") -> list[str]:
    """The sessions that a listing has, in its order."""
    traces = {each.trace_id for each in life.spans if text in str(each.attributes["said"]).upper()}
    matching = [
        each.session_id or each.uid
        for each in life.records
        if query.profile in (None, each.alias)
        and each.received_ns >= (query.since_ns or 0)
        and (text in str(each.context).upper() or each.trace_id in traces)
    ]
    newest_first = list(dict.fromkeys(reversed(matching)))
    return [each for each in newest_first if life.of(each).matches(query)]


class StoreSessionsContract:
    """Subclass it and give the fixture `open_store`."""

    @pytest.fixture
    def store(self, open_store: Callable[[], AppendingStore]) -> Iterator[AppendingStore]:
        store = open_store()
        yield store
        store.close()

    @_IN_CLASS
    @given(data=st.data())
    def test_sessions_are_those_of_a_brute_force(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        """Any conditions together, a text among them, and searches that end after each part."""
        space = f"space {store.last_seq()}"  # one store for all examples
        life = put_in(store, data, space)
        for _ in range(4):
            query = draw_query(data, space)
            is_over = data.draw(st.booleans())
            text = data.draw(st.sampled_from(["", "RED"]))
            found = listed(store, query, lambda over=is_over: over, text)
            assert found == wanted(life, query, text)

    @_IN_CLASS
    @given(data=st.data())
    def test_a_count_of_sessions_is_the_length_of_the_list(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        space = f"space {store.last_seq()}"
        life = put_in(store, data, space)
        query = draw_query(data, space)
        given_tags = dict(query.tags)

        def length(name: str, value: str) -> int:
            if name == "tag":
                key, _, text = value.partition("=")
                if given_tags.get(key, text) != text:
                    return 0  # both cannot be requested at once
                return len(wanted(life, replace(query, tags=(*query.tags, (key, text)))))
            matching = Outcome(value) if name == "outcome" else value
            if getattr(query, name) not in (None, matching):
                return 0
            return len(wanted(life, replace(query, **{name: matching})))

        names = ("profile", "task_id", "tool_name", "response_model")
        values: Mapping[str, list[str]] = {
            **{name: ["a", "b"] for name in names},
            "outcome": [each.value for each in Outcome],
            "tag": ["a=a", "a=b", "b=a", "b=b"],
        }
        lengths = {
            name: {value: length(name, value) for value in some if length(name, value)}
            for name, some in values.items()
        }
        found = store.session_facets(query, lambda _: False)
        assert found.counts == {name: counts for name, counts in lengths.items() if counts}
        assert found.looked_until_ns is None

    def test_a_search_that_ends_early_goes_on_where_it_ended(self, store: AppendingStore) -> None:
        """One session of 200 failed, the oldest. A listing without conditions never ends early."""
        for n in range(200):
            store.append_records([record(f"u{n}", session_id=f"s{n}", received_ns=n)]).result()
        store.append_evaluations([evaluation("u0", Outcome.FAILED)]).result()
        query, pages, reached = SessionQuery(space=SPACE, limit=5), 0, list[int]()
        assert store.sessions(query, lambda: True).looked_until_ns is None
        query = replace(query, outcome=Outcome.FAILED)
        while (page := store.sessions(query, lambda: True)).next_before is not None:
            assert (page.items, page.looked_until_ns) == ((), page.looked_until_ns or 0)
            reached.append(page.looked_until_ns or 0)
            query, pages = replace(query, before=page.next_before, as_of=page.as_of), pages + 1
        assert [each.session_id for each in page.items] == ["s0"]
        assert pages > 1
        assert reached == sorted(set(reached), reverse=True)

    def test_a_search_for_a_text_that_ends_early_goes_on_where_it_ended(
        self, store: AppendingStore
    ) -> None:
        """Each page reads a part; one session has the text in its oldest record, one in a span."""
        for n in range(200):
            said = {"said": "rare" if n == 150 else "common"}
            row = record(
                f"u{n}", session_id=f"s{n}", received_ns=n, context=said, trace_id=f"{n + 1:032x}"
            )
            store.append_records([row]).result()
        rows = [span(1, trace_id=f"{4:032x}", attributes={"said": "Rare"})]
        store.append_spans(SPACE, rows, 1000).result()
        query, found, reached = SessionQuery(space=SPACE), list[str](), list[int]()
        while (page := store.sessions(query, lambda: True, ["rare"])).looked_until_ns:
            found += [each.session_id for each in page.items]
            reached.append(page.looked_until_ns)
            query = replace(query, before=page.next_before, as_of=page.as_of)
        assert [*found, *(each.session_id for each in page.items)] == ["s150", "s3"]
        assert page.next_before is None
        assert len(reached) > 1
        assert reached == sorted(set(reached), reverse=True)
        assert listed(store, SessionQuery(space=SPACE, until_ns=150), lambda: False, "rare") == [
            "s3"
        ]

    def test_a_session_sums_up_the_spans_of_its_traces(self, store: AppendingStore) -> None:
        """From 10 to 45 in two traces; 3 + 4 and 5 tokens. Another's trace counts for itself."""
        called = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3}
        answered = {**called, "gen_ai.usage.input_tokens": 4, "gen_ai.usage.output_tokens": 5}
        traces = [f"{n:032x}" for n in (1, 2, 3)]
        rows = [
            span(1, trace_id=traces[0], start_ns=10, end_ns=20, attributes=called),
            span(2, trace_id=traces[1], start_ns=30, end_ns=45, attributes=answered),
            span(3, trace_id=traces[2], start_ns=1, end_ns=2),
        ]
        store.append_spans(SPACE, rows, 5).result()
        for n, session_id in enumerate(("s", "s", "other")):
            store.append_records(
                [record(f"u{n}", session_id=session_id, trace_id=traces[n])]
            ).result()
        store.append_records([record("alone")]).result()
        found = {each.session_id: each for each in store.sessions(SessionQuery(space=SPACE)).items}
        sums = {
            name: (each.duration_ns, each.input_tokens, each.output_tokens)
            for name, each in found.items()
        }
        assert sums == {"s": (35, 7, 5), "other": (1, None, None), "alone": (None, None, None)}
