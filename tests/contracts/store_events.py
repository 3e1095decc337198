"""Duties of every store with log events: they are stored as spans are, and are none."""

from collections.abc import Callable
from typing import Any

import pytest

from collector.store.erase import EraseTarget
from collector.store.span_queries import SpanQuery, TraceQuery
from collector.store.usage import UsageGroup, UsageQuery
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.otlp_logs import log_event
from scouter.model.span import AttributeValue, Span
from tests.contracts.store_data import SPACE, TRACE, evaluation, record, span
from tests.contracts.store_opened import OpenedStore
from tests.support.store_appends import AppendingStore

Open = Callable[[], AppendingStore]


def event(of_span: int, at_ns: int = 15, trace_id: str = TRACE, **said: AttributeValue) -> Span:
    """A log event of one of the spans of `span`."""
    ids = (trace_id, f"{of_span:016x}")
    found = log_event("gen_ai.choice", ids, (at_ns, at_ns), said or {"index": 0})
    assert found is not None
    return found


def said(store: AppendingStore, trace_id: str = TRACE) -> dict[str, list[Any]]:
    """By span, in order, the attributes of its events, as the engine sees them."""
    tree = SpanTree(store.spans_of(SPACE, [trace_id]).get(trace_id, ()))
    return {each.span_id[-1]: [e.attributes for e in each.events] for each in tree.spans}


class EventSearchContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    def test_no_question_about_spans_finds_an_event(self, store: AppendingStore) -> None:
        """Listings, traces and usage; what it says of models and tools is not counted again."""
        loud: dict[str, Any] = {
            "gen_ai.operation.name": "chat", "gen_ai.response.model": "m",
            "gen_ai.agent.name": "a", "gen_ai.usage.input_tokens": 5,
        }  # fmt: skip
        store.append_spans(SPACE, [span(1, attributes=loud)], 1).result()
        store.append_spans(SPACE, [event(1, 5, **loud), event(1, 900, **loud)], 1).result()

        assert [each.name for each in store.spans(SpanQuery(space=SPACE, limit=9)).items] == [
            "step 1"
        ]
        assert not store.spans(SpanQuery(space=SPACE, limit=9, name="gen_ai.choice")).items
        (trace,) = store.traces(TraceQuery(space=SPACE, limit=9)).items
        assert (trace.name, trace.start_ns, trace.end_ns, trace.spans) == ("step 1", 10, 20, 1)
        assert trace.input_tokens == 5
        for group, key in ((UsageGroup.MODEL, "m"), (UsageGroup.AGENT, "a")):
            (usage,) = store.usage(UsageQuery(space=SPACE, group_by=group, limit=9)).items
            (of_model,) = usage.tokens
            assert (usage.key, of_model.calls, of_model.input_tokens) == (key, 1, 5)


class StoreEventsContract(EventSearchContract):
    """Likewise."""

    @pytest.mark.parametrize("is_first", [True, False])
    def test_an_event_comes_back_with_its_span(self, open_store: Open, is_first: bool) -> None:
        """Before it or behind it, twice, and after the store was closed."""
        batches = [[event(1, 15, text="hé"), event(1, 12)], [span(1), span(2)]]
        store = open_store()
        for batch in batches if is_first else batches[::-1]:
            store.append_spans(SPACE, batch, 1).result()
        store.close()
        store = open_store()
        again = store.append_spans(SPACE, batches[0], 2).result()
        found, sheet = said(store), store.conservation(SPACE)
        store.close()

        assert again.stored == ()
        assert found == {"1": [{"index": 0}, {"text": "hé"}], "2": []}
        events, spans = sheet.events, sheet.spans
        assert (events.accepted, events.stored, events.duplicates, events.spanless) == (2, 2, 2, 0)
        assert (spans.accepted, spans.stored, spans.duplicates) == (2, 2, 0)

    def test_an_event_without_its_span_is_counted_and_stored(self, store: AppendingStore) -> None:
        """Of another trace with the same span id there is a span, which it is not."""
        store.append_spans(SPACE, [span(1, trace_id="1" * 32), span(2)], 1).result()
        store.append_spans(SPACE, [event(1), event(2)], 1).result()
        sheet = store.conservation(SPACE).events
        assert (sheet.stored, sheet.spanless) == (2, 1)
        tree = SpanTree(store.spans_of(SPACE, [TRACE])[TRACE])
        assert [each.parent_span_id for each in tree.strays] == [f"{1:016x}"]
        assert tree.gaps.spans
        assert store.conservation("another").events.stored == 0

    def test_an_event_after_the_evaluation_makes_no_span_late(self, store: AppendingStore) -> None:
        store.append_records([record(trace_id=TRACE)]).result()
        store.append_spans(SPACE, [span(1)], 1).result()
        row = evaluation(trace_id=TRACE, reads_spans=True, input_seq=store.last_seq())
        store.append_evaluations([row]).result()
        store.append_spans(SPACE, [event(1)], 2).result()
        assert store.conservation(SPACE).spans.late == 0

    def test_a_result_of_an_evaluator_is_shown_with_its_span(self, store: AppendingStore) -> None:
        ids = (TRACE, f"{1:016x}")
        result = log_event("gen_ai.evaluation.result", ids, (15, 15), {"score": 1})
        assert result is not None
        store.append_records([record(trace_id=TRACE)]).result()
        store.append_spans(SPACE, [span(1)], 1).result()
        row = evaluation(trace_id=TRACE, reads_spans=True, input_seq=store.last_seq())
        store.append_evaluations([row]).result()
        store.append_spans(SPACE, [result], 2).result()
        assert said(store) == {"1": []}
        (shown,) = SpanTree(store.trace(SPACE, TRACE, 9).spans).spans
        assert [each.name for each in shown.events] == ["gen_ai.evaluation.result"]
        assert store.conservation(SPACE).events.stored == 1


class ErasedEventsContract(OpenedStore):
    """Log events that go with what they belong to."""

    @pytest.mark.parametrize("target", [{"trace_id": TRACE}, {"session_id": "s"}])
    def test_an_event_goes_with_its_span_for_good(
        self, open_store: Open, target: dict[str, Any]
    ) -> None:
        """Of a trace, or of one span of a session in a trace that another record holds."""
        is_whole = "trace_id" in target
        if is_whole:
            rows = [record("a", session_id="s", trace_id=TRACE)]
        else:
            rows = [record("b", session_id="other", trace_id=TRACE)]
        spans = [span(1, attributes={"session.id": "s"}), span(2)]
        events = [event(1, 15), event(2, 15)]
        store = open_store()

        def send() -> None:
            store.append_records(rows).result()
            store.append_spans(SPACE, spans, 1).result()
            store.append_spans(SPACE, events, 1).result()

        send()
        done = store.erase(EraseTarget(space=SPACE, **target))
        assert done.spans == (2 if is_whole else 1)
        wanted = {} if is_whole else {"2": [{"index": 0}]}
        gone = 2 if is_whole else 1
        assert said(store) == wanted
        send()
        store.append_spans(SPACE, [event(1, 16)], 1).result()  # another one of an erased span
        assert said(store) == wanted
        sheet = store.conservation(SPACE).events
        assert (sheet.accepted, sheet.stored, sheet.erased) == (2, 2 - gone, gone)
        assert sheet.duplicates == 3
        store.close()
        store = open_store()
        send()
        assert said(store) == wanted
        store.close()
