"""Duties of every transport; a transport's test adds one small class and no test logic."""

import json
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode

from scouter.errors import DataError, TransientError
from scouter.model.attributes import TRUNCATED
from scouter.model.span import Scope, Span
from scouter.transport.config import RemoteConfig, SpoolConfig
from scouter.transport.otlp import read_back, write_request
from scouter.transport.port import RemoteTransport
from tests.contracts.transport_data import (
    drops,
    make_items,
    make_spans,
    nested,
    with_unwritable,
)
from tests.support.processes import wait_until


class TransportContract:
    """Records and spans arrive whole, in order, once per accepted send."""

    @abstractmethod
    def config(self) -> RemoteConfig:
        """Settings of the transport under test."""

    @abstractmethod
    def received_records(self, count: int) -> list[dict[str, Any]]:
        """All that has arrived; waits with a deadline until it is `count` or more."""

    @abstractmethod
    def received_spans(self, count: int) -> list[Span]:
        """All that has arrived; waits with a deadline until it is `count` or more."""

    @abstractmethod
    def received_drops(self) -> list[str]:
        """The text of each `scouter-dropped` that has arrived with records."""

    @abstractmethod
    def away(self) -> AbstractContextManager[None]:
        """Inside the block the far side takes nothing; what it took before stays."""

    def open(self) -> RemoteTransport:
        """Open the transport under test."""
        return self.config().connect()

    @pytest.fixture
    def transport(self) -> Iterator[RemoteTransport]:
        """An open transport, closed afterwards."""
        transport = self.open()
        yield transport
        transport.close()

    def test_records_arrive_as_the_wire_form_says(self, transport: RemoteTransport) -> None:
        items = make_items(3)

        assert transport.send_records(items) == 0

        found = sorted(self.received_records(3), key=lambda record: record["record_id"])
        assert found == [
            {
                "uid": item.uid,
                "profile": "d" * 64,
                "record_id": f"r{n}",
                "session_id": "session",
                "trace_id": None if n % 2 == 0 else f"{n + 1:032x}",
                "created_at": item.created_ns,
                "context": {"n": n},
                "tags": {"tier": "gold"},
            }
            for n, item in enumerate(items)
        ]

    def test_spans_arrive_with_their_resource(self, transport: RemoteTransport) -> None:
        spans = make_spans(10, traces=3)

        assert transport.send_spans(spans) == 0

        found = self.received_spans(10)
        assert sorted(span.name for span in found) == sorted(span.name for span in spans)
        assert {span.resource.service_name for span in found} == {"agent"}
        assert len({span.trace_id for span in found}) == 3

    def test_a_large_batch_arrives_whole(self, transport: RemoteTransport) -> None:
        """Above the size from which bodies are compressed."""
        assert transport.send_records(make_items(50, {"text": "é" * 2000})) == 0
        assert transport.send_spans(make_spans(50, "ü" * 2000)) == 0

        assert {record["context"]["text"] for record in self.received_records(50)} == {"é" * 2000}
        assert {str(s.attributes["text"]) for s in self.received_spans(50)} == {"ü" * 2000}

    def test_text_that_is_not_unicode_costs_nothing_else(self, transport: RemoteTransport) -> None:
        """Half a surrogate pair, which Python holds and UTF-8 cannot."""
        assert transport.send_records(make_items(2, {"text": "a\ud800b"})) == 0

        assert [record["context"] for record in self.received_records(2)] == [
            {"text": "a\ufffdb"}
        ] * 2

    def test_no_span_is_lost_for_what_it_holds(self, transport: RemoteTransport) -> None:
        """Halves of characters in all its texts, a large integer, and nesting without end."""
        half = {"k\ud800": ("v\ud800", "b"), "n": 2**70, "deep": nested(200)}
        context = SpanContext(1, 2, is_remote=False)
        span = ReadableSpan(
            "\ud800 name",
            context,
            attributes=half,
            events=[Event("e\udfff", half, 5)],
            links=[Link(context, half)],
            status=Status(StatusCode.ERROR, "why \ud83d"),
            resource=Resource({"service.name": "s\ud800"}),
            instrumentation_scope=InstrumentationScope("lib\ud800", "1\ud800"),
            start_time=1,
            end_time=2,
        )
        assert transport.send_spans([span]) == 0

        (found,) = self.received_spans(1)
        assert [found] == read_back([span])
        assert (found.name, found.status_message) == ("\ufffd name", "why \ufffd")
        assert found.resource.attributes == {"service.name": "s\ufffd"}
        assert found.scope == Scope(name="lib\ufffd", version="1\ufffd")
        assert found.events[0].name == "e\ufffd"
        for each in (found, *found.events, *found.links):
            assert each.attributes["k\ufffd"] == ("v\ufffd", "b")
            assert each.attributes["n"] == str(2**70)
            assert each.attributes[TRUNCATED] == ("deep",)

    def test_a_span_that_cannot_be_written_is_counted(self, transport: RemoteTransport) -> None:
        bad = make_spans(3)
        bad[1] = ReadableSpan("late", context=bad[1].get_span_context(), start_time=2**64)

        assert transport.send_spans(bad) == 1

        assert {span.name for span in self.received_spans(2)} == {"span 0", "span 2"}

    def test_several_sends_add_up(self, transport: RemoteTransport) -> None:
        for _ in range(3):
            transport.send_records(make_items(2))

        assert len({record["uid"] for record in self.received_records(6)}) == 6

    def test_closing_twice_is_harmless(self) -> None:
        transport = self.open()
        transport.close()
        transport.close()

    def test_spans_that_are_written_already_arrive(self, transport: RemoteTransport) -> None:
        spans = make_spans(7, traces=2)
        data, _ = write_request(spans)

        assert transport.send_otlp(data, 7) == 0

        assert sorted(span.name for span in self.received_spans(7)) == [
            f"span {n}" for n in range(7)
        ]

    def test_a_record_that_cannot_be_written_costs_only_itself(
        self, transport: RemoteTransport
    ) -> None:
        items = with_unwritable(make_items(3))
        written = [items[0], items[2], items[4]]

        assert transport.send_records(items) == len(items) - len(written)

        found = {record["uid"] for record in self.received_records(len(written))}
        assert found == {item.uid for item in written}

    def test_a_batch_of_which_nothing_can_be_written_tells_of_no_drops(
        self, transport: RemoteTransport
    ) -> None:
        """Nothing is sent for it, so what was dropped has still to be reported."""
        items = with_unwritable(make_items(3))
        unwritable = [ReadableSpan("late", SpanContext(1, 2, is_remote=False), start_time=2**64)]

        with pytest.raises(DataError, match="nothing of the batch can be written"):
            transport.send_records([items[1], items[3]], drops(full=2))
        with pytest.raises(DataError, match="nothing of the batch can be written"):
            transport.send_spans(unwritable, drops(full=2))
        transport.send_records(make_items(1))

        self.received_records(1)
        assert self.received_drops() == []

    def test_drops_are_reported_once(self, transport: RemoteTransport) -> None:
        transport.send_records(make_items(3), drops(full=3, closed=1))
        transport.send_records(make_items(1))

        self.received_records(4)
        assert self.received_drops() == ["sender=s1, closed=0/1, full=0/3"]

    def test_a_far_side_that_is_away_may_come_back(self, transport: RemoteTransport) -> None:
        """The same transport goes on; what was refused was not taken."""
        before, refused, after = make_items(3)
        transport.send_records([before])
        with self.away(), pytest.raises(TransientError):
            transport.send_records([refused])

        def is_back() -> bool:
            try:
                return transport.send_records([after]) == 0
            except TransientError:
                return False

        wait_until(is_back, what="the far side takes records again", every_s=0.1)
        found = {record["uid"] for record in self.received_records(2)}
        if refused.uid in found:  # stored, and only the answer was late
            found = {record["uid"] for record in self.received_records(3)}
        assert {before.uid, after.uid} <= found <= {before.uid, refused.uid, after.uid}

    def test_a_spool_keeps_what_the_far_side_cannot_take(self, tmp_path: Path) -> None:
        """Nothing waits for the far side, and all of it arrives once it is back."""
        spool = SpoolConfig(folder=tmp_path / "spool")
        transport = self.config().model_copy(update={"spool": spool}).open()
        items, spans = make_items(6), make_spans(9, "é" * 100, traces=2)
        assert transport.send_records(items[:2]) == 0
        with self.away():
            assert transport.send_records(items[2:4], drops(full=5)) == 0
            assert transport.send_spans(spans) == 0
            assert transport.send_records(items[4:]) == 0
            assert spool.stats().waiting == 13, f"{spool.stats()}"
        wait_until(lambda: spool.stats().waiting == 0, what="the spool is empty")
        transport.close()

        found = {record["uid"]: record["context"] for record in self.received_records(6)}
        assert found == {item.uid: json.loads(item.context_json) for item in items}
        assert len({span.span_id for span in self.received_spans(9)}) == 9
        assert set(self.received_drops()) == {
            "sender=s1, full=0/5"
        }  # again, where an answer was lost
        assert list(spool.folder.iterdir()) == [spool.folder / "spool-1.sqlite"]
