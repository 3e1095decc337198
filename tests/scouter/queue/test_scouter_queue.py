"""Records go in at any time, are snapshots, and are all accounted for."""

import json
import logging
import math
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import baggage, context, trace

from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, UnknownProfileError
from scouter.model.attributes import SCENARIO_ID
from scouter.model.record import EvalRecord
from scouter.queue.sampling import Decisions, Sampling, id_is_sampled
from scouter.queue.scouter_queue import ScouterQueue
from scouter.transport.config import MockConfig, TransportConfig
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.guard import GUARD
from scouter.transport.port import RecordItem, Transport, encode_record
from scouter.transport.worker import WorkerLimits
from tests.scouter.queue.profiles import profile

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

WAIT_S = 120
TRACE = 0x0AF7651916CD43DD8448EB211C80319C
SPAN = trace.NonRecordingSpan(
    trace.SpanContext(TRACE, 7, is_remote=False, trace_flags=trace.TraceFlags(1))
)


class Stored:
    """A transport that keeps what it gets."""

    def __init__(self) -> None:
        self.items: list[RecordItem] = []

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        self.items += items
        return 0

    def send_spans(self, spans: Sequence["ReadableSpan"], dropped: Dropped = NONE_DROPPED) -> int:
        raise AssertionError(spans)

    def close(self) -> None:
        pass


class StoredConfig(TransportConfig):
    """Opens one given transport."""

    transport: Any

    def open(self) -> Transport:
        return self.transport


@pytest.fixture
def stored() -> Stored:
    return Stored()


@pytest.fixture
def queue(stored: Stored) -> Iterator[ScouterQueue]:
    """A queue of two aliases."""
    made = ScouterQueue.from_profile(
        [profile("retriever"), profile("writer", 2)], StoredConfig(transport=stored)
    )
    yield made
    made.shutdown()


def test_a_record_travels_with_its_profiles_uid(queue: ScouterQueue, stored: Stored) -> None:
    record = EvalRecord({"n": (1, 2)}, "r1", "s1", tags={"tier": "gold"})
    queue["writer"].insert(record)
    assert queue.flush(WAIT_S)

    (item,) = stored.items
    assert json.loads(encode_record(item) or b"") == {
        "uid": record.uid,
        "profile": profile("writer", 2).uid,
        "record_id": "r1",
        "session_id": "s1",
        "trace_id": None,
        "created_at": record.created_ns,
        "context": {"n": [1, 2]},
        "tags": {"tier": "gold"},
    }
    assert queue.is_empty()


def test_changes_to_the_records_own_tree_do_not_travel(queue: ScouterQueue, stored: Stored) -> None:
    record = EvalRecord({"a": {"b": [1, 10**30, None, 0.5]}})
    queue["writer"].insert(record)
    tree: Any = record.context
    tree["a"]["b"].append("too late")
    assert queue.flush(WAIT_S)

    assert json.loads(stored.items[0].context_json) == {"a": {"b": [1, 10**30, None, 0.5]}}


def test_what_was_inserted_no_longer_changes(queue: ScouterQueue, stored: Stored) -> None:
    inner = {"a": 1}
    record = EvalRecord({"inner": inner}, "r1")
    queue["writer"].insert(record)
    inner["a"] = 2
    record.add_tag("late", "tag")
    record.record_id = "r2"
    queue.flush(WAIT_S)

    (item,) = stored.items
    assert (json.loads(item.context_json), item.record_id, dict(item.tags)) == (
        {"inner": {"a": 1}},
        "r1",
        {},
    )


def test_the_active_trace_is_stamped(queue: ScouterQueue, stored: Stored) -> None:
    own = "f" * 32
    token = context.attach(trace.set_span_in_context(SPAN))
    queue["writer"].insert(EvalRecord({}))
    queue["writer"].insert(EvalRecord({}, trace_id=own))
    context.detach(token)
    queue["writer"].insert(EvalRecord({}))
    queue.flush(WAIT_S)

    assert [item.trace_id for item in stored.items] == [f"{TRACE:032x}", own, None]


def test_a_session_that_nobody_named_does_not_travel_with_a_trace(
    queue: ScouterQueue, stored: Stored
) -> None:
    """The trace may name one; without a trace the record's own is all there is."""
    alone = EvalRecord({})
    for record in (EvalRecord({}, trace_id="f" * 32), alone):
        queue["writer"].insert(record)
    queue["writer"].insert(EvalRecord({}, trace_id="f" * 32, session_id="anna"))
    queue.flush(WAIT_S)

    assert [item.session_id for item in stored.items] == ["", alone.session_id, "anna"]


class OthersSpan(trace.NonRecordingSpan):
    """A span of a library whose span contexts only have OpenTelemetry's names."""

    def __init__(self, **fields: object) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self._fields = fields

    def get_span_context(self) -> Any:
        return SimpleNamespace(**self._fields)


@pytest.mark.parametrize(("trace_id", "stamped"), [(0xABC, f"{0xABC:032x}"), (None, None)])
def test_a_span_context_of_another_library_is_understood_or_passed_over(
    queue: ScouterQueue, stored: Stored, trace_id: int | None, stamped: str | None
) -> None:
    given = {"span_id": 1, "is_remote": False, "trace_flags": 1}
    with trace.use_span(OthersSpan(trace_id=trace_id, **given)):
        queue["writer"].insert(EvalRecord({}))
    with trace.use_span(OthersSpan()):
        queue["writer"].insert(EvalRecord({}))
    queue.flush(WAIT_S)

    assert [item.trace_id for item in stored.items] == [stamped, None]


def test_inserting_again_inserts_another_record(queue: ScouterQueue, stored: Stored) -> None:
    """One uid names one payload: two insertions are two evaluations."""
    record = EvalRecord({"n": 1}, "r1", "s1")
    queue["writer"].insert(record)
    queue["retriever"].insert(record)
    queue.flush(WAIT_S)

    first, second = stored.items
    assert first.uid != second.uid
    assert (json.loads(second.context_json), second.record_id, second.session_id) == (
        {"n": 1},
        "r1",
        "s1",
    )


def test_bad_data_is_counted_and_logged_once(
    queue: ScouterQueue, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        queue["writer"].insert(EvalRecord({"bad": object()}))
    queue["writer"].insert({"not": "a record"})  # type: ignore[arg-type]

    assert queue.stats.dropped == {"invalid": 4}
    assert queue.stats.inserted == 4
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "queue 'writer'" in caplog.text
    assert "has no JSON form" in caplog.text


def test_a_bug_of_ours_does_not_reach_the_host(
    queue: ScouterQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("bug")

    monkeypatch.setattr(EvalRecord, "freeze", broken)
    with pytest.raises(ZeroDivisionError):
        queue["writer"].insert(EvalRecord())
    GUARD.strict = False
    queue["writer"].insert(EvalRecord())

    assert queue.stats.dropped == {"internal": 2}
    assert caplog.text.count("internal error") == 1


def test_an_unknown_alias_is_named_with_the_known_ones(queue: ScouterQueue) -> None:
    with pytest.raises(UnknownProfileError, match=r"'nope'.*'retriever', 'writer'"):
        queue["nope"]
    with pytest.raises(KeyError):
        queue.drain_records("nope")
    assert "writer" in queue
    assert "nope" not in queue


@pytest.mark.parametrize(
    ("given", "aliases"),
    [
        (profile("a"), ["a"]),
        ([profile("a"), profile("b")], ["a", "b"]),
        ((profile("b"),), ["b"]),
        ({"x": profile("a"), "y": profile("a")}, ["x", "y"]),
    ],
)
def test_profiles_in_every_form(given: Any, aliases: list[str]) -> None:
    queue = ScouterQueue.from_profile(given, MockConfig())

    assert list(queue.agent_profiles()) == aliases
    assert queue.transport_config == MockConfig()


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="Transport config was not provided"):
        ScouterQueue.from_profile(profile("a"))
    with pytest.raises(ConfigError, match="two profiles have the alias 'a'"):
        ScouterQueue.from_profile([profile("a"), profile("a", 2)], MockConfig())
    with pytest.raises(ConfigError, match="alias must be set"):
        ScouterQueue.from_profile({"": profile("a")}, MockConfig())
    unnamed = AgentEvalProfile(profile("a").tasks)
    with pytest.raises(ConfigError, match="alias must be set"):
        ScouterQueue.from_profile(unnamed, MockConfig())
    assert "b" in ScouterQueue.from_profile({"b": unnamed}, MockConfig())
    with pytest.raises(ConfigError, match="no profile was given"):
        ScouterQueue.from_profile([], MockConfig())


def test_profiles_from_files(tmp_path: Path) -> None:
    path = profile("saved").save_to_json(tmp_path / "profile.json")

    queue = ScouterQueue.from_path({"other": str(path)}, MockConfig(), wait_for_startup=True)

    loaded = queue.agent_profiles()["other"]
    assert isinstance(loaded, AgentEvalProfile)
    assert loaded.digest == profile("saved").digest


# --- capture ---


def test_captured_records_stay_here(queue: ScouterQueue, stored: Stored) -> None:
    queue.enable_capture()
    first, second = EvalRecord({"n": 1}), EvalRecord({"n": 2})
    queue["writer"].insert(first)
    queue["retriever"].insert(second)
    first.add_tag("late", "tag")

    assert queue.is_capturing
    drained = queue.drain_all_records()
    assert [record.uid for record in drained["writer"]] == [first.uid]
    assert [record.context for record in drained["retriever"]] == [{"n": 2}]
    assert drained["writer"][0].tags == []
    assert drained["writer"][0].is_frozen
    assert queue.drain_all_records() == {}
    queue.flush(WAIT_S)
    assert stored.items == []
    assert queue.stats.captured == queue.stats.inserted == 2


def test_capture_starts_and_ends_empty(queue: ScouterQueue, stored: Stored) -> None:
    queue.enable_capture()
    queue["writer"].insert(EvalRecord())
    queue.enable_capture()
    assert queue.drain_records("writer") == []
    queue["writer"].insert(EvalRecord())
    queue.disable_capture()
    assert queue.drain_records("writer") == []

    queue["writer"].insert(EvalRecord())
    queue.flush(WAIT_S)
    assert len(stored.items) == 1


def test_records_of_one_scenario_can_be_drained_alone(queue: ScouterQueue) -> None:
    queue.enable_capture()
    for scenario in ("a", "b", "a"):
        token = context.attach(baggage.set_baggage(SCENARIO_ID, scenario))
        queue["writer"].insert(EvalRecord({"of": scenario}))
        context.detach(token)
    queue["retriever"].insert(EvalRecord({"of": None}))

    drained = queue.drain_all_records("a")
    assert [record.context for record in drained["writer"]] == [{"of": "a"}] * 2
    assert list(drained) == ["writer"]
    assert [r.context for r in queue.drain_records("writer", "b")] == [{"of": "b"}]
    assert [r.context for r in queue.drain_records("retriever")] == [{"of": None}]
    assert queue.drain_all_records() == {}


def test_what_is_captured_is_bounded(
    queue: ScouterQueue, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five fit, of both aliases together; room comes with what is drained, and nothing is sent."""
    monkeypatch.setattr("scouter.queue.scouter_queue.MAX_CAPTURED", 5)
    queue.enable_capture()
    for n in range(4):
        for alias in ("writer", "retriever"):
            queue[alias].insert(EvalRecord({"n": n}))
    assert queue["writer"].insert_for_trace(EvalRecord(), None) is None

    stats = queue.stats
    assert (stats.inserted, stats.captured, stats.dropped) == (9, 5, {"capture_full": 4})
    assert [record.context for record in queue.drain_records("writer")] == [
        {"n": 0}, {"n": 1}, {"n": 2},
    ]  # fmt: skip
    uid = queue["writer"].insert_for_trace(EvalRecord(), None)
    assert [record.uid for record in queue.drain_records("writer")] == [uid]
    assert len(queue.drain_records("retriever")) == 2
    queue.disable_capture()
    assert queue.flush(WAIT_S)
    assert stored.items == []


# --- sampling, bounds, the end ---


def test_the_ratio_is_decided_by_the_trace(queue: ScouterQueue, stored: Stored) -> None:
    """Half: the traces whose low 64 bits are below 2**63, and each of them whole."""
    queue.set_sample_ratio(0.5)
    low, high = f"{1:032x}", f"{1 << 63:032x}"
    for _ in range(5):
        queue["writer"].insert(EvalRecord(trace_id=low))
        queue["retriever"].insert(EvalRecord(trace_id=high))
    queue.flush(WAIT_S)

    assert {item.trace_id for item in stored.items} == {low}
    assert len(stored.items) == 5
    assert queue.stats.dropped == {"sampled": 5}


def test_records_without_a_trace_are_sampled_by_their_uid(queue: ScouterQueue) -> None:
    """1,000 random uids at one half: within six standard deviations of 500."""
    queue.set_sample_ratio(0.5)
    for _ in range(1000):
        queue["writer"].insert(EvalRecord())
    queue.flush(WAIT_S)

    assert 400 < queue.stats.sent < 600
    queue.set_sample_ratio(0.0)
    queue["writer"].insert(EvalRecord(uid="own name"))
    queue.flush(WAIT_S)
    assert queue.stats.dropped["sampled"] + queue.stats.sent == 1001


@pytest.mark.parametrize("way", ["queue", "tracing", "caller"])
@pytest.mark.parametrize(("ratio", "share"), [(1.0, 0.5), (0.5, 0.5), (0.2, 0.5), (0.5, 0.1)])
def test_a_profile_can_ask_for_a_share_of_its_own(
    stored: Stored, way: str, ratio: float, share: float
) -> None:
    """Of what is stored by the queue's ratio, by tracing's, or by a caller that tells no ratio.

    4,000 random traces: within six standard deviations of the product; each whole or not at all.
    """
    part = profile("part").model_copy(update={"config": AgentEvalConfig(sample_ratio=share)})
    queue = ScouterQueue({"part": part, "all": profile("all")}, StoredConfig(transport=stored))
    if way == "queue":
        queue.set_sample_ratio(ratio)
    elif way == "tracing":
        queue.follow(Sampling(ratio=ratio))
    rng = random.Random(7)
    for _ in range(4_000):
        number = rng.getrandbits(128)
        is_sampled = id_is_sampled(number, ratio) if way == "caller" else None
        for alias in ("part", "all", "part"):
            trace_id = f"{number:032x}"
            queue[alias].insert_for_trace(EvalRecord(), trace_id, is_sampled=is_sampled)
    assert queue.flush(WAIT_S)
    queue.shutdown()

    counts = Counter(item.trace_id for item in stored.items)
    assert set(counts.values()) <= {1, 3}
    for found, chance in (
        (len(counts), ratio),
        (sum(count == 3 for count in counts.values()), ratio * share),
    ):
        assert abs(found - 4_000 * chance) <= 6 * math.sqrt(4_000 * chance * (1 - chance))


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_a_ratio_outside_its_range_is_refused(queue: ScouterQueue, ratio: float) -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        queue.set_sample_ratio(ratio)


def test_a_full_queue_drops_and_counts() -> None:
    gate = threading.Event()

    class Slow(Stored):
        def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
            assert gate.wait(WAIT_S)
            return super().send_records(items, dropped)

    slow = Slow()
    queue = ScouterQueue(
        {"a": profile("a")}, StoredConfig(transport=slow), WorkerLimits(delay_s=0.001, max_items=10)
    )
    for n in range(25):
        queue["a"].insert(EvalRecord({"n": n}))
    gate.set()
    assert queue.flush(WAIT_S)

    assert [json.loads(item.context_json) for item in slow.items] == [{"n": n} for n in range(10)]
    assert queue.stats.dropped == {"full": 15}
    queue.shutdown()
    queue["a"].insert(EvalRecord())
    assert queue.stats.dropped == {"full": 15, "closed": 1}
    assert queue.stats.inserted == 26


def test_many_threads_insert_at_once(queue: ScouterQueue, stored: Stored) -> None:
    def insert() -> None:
        for n in range(200):
            queue["writer"].insert(EvalRecord({"n": n}))

    threads = [threading.Thread(target=insert) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.flush(WAIT_S)

    assert len({item.uid for item in stored.items}) == 1600
    assert queue.stats.inserted == queue.stats.sent == 1600


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_that_was_forked_in_the_middle_of_an_insertion_works() -> None:
    """Every lock of the SDK is taken by the forking thread; the child must not care."""
    code = """
import os
import random
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.capture import CAPTURE
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import init_tracer
from scouter.transport.config import MockConfig
from scouter.transport.guard import GUARD
from tests.scouter.queue.profiles import profile
queue = ScouterQueue.from_profile(profile("a"), MockConfig())
tracer = init_tracer(scouter_queue=queue)
CAPTURE.enable()
CAPTURE.disable()
queue["a"].insert(EvalRecord(object()))
locks = [queue._lock, queue._worker._lock, RUNTIME.export._lock, RUNTIME._lock,
         CAPTURE._lock, GUARD._lock]
for lock in locks:
    lock.acquire()
child = os.fork()
if child == 0:
    with tracer.start_as_current_span("s") as span:
        span.add_queue_item("a", EvalRecord({"n": 1}))
        span.add_queue_item("a", EvalRecord(object()))
    assert queue.flush(20) and RUNTIME.flush(20)
    assert queue.stats.sent == 1 and RUNTIME.stats.sent == 1, (queue.stats, RUNTIME.stats)
    os._exit(0)
for lock in locks:
    lock.release()
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_latest_decisions_on_traces_are_known() -> None:
    decisions = Decisions()
    assert decisions.on("f" * 32) is None
    for number in range(1, 30_001):
        decisions.note(number, number % 2 == 0)

    assert [decisions.on(f"{number:032x}") for number in (1, 20_001, 30_000)] == [None, False, True]
    assert decisions.on(None) is None


def test_a_slot_by_the_profiles_uid() -> None:
    """The first of several with one uid: the same name and tasks under two aliases."""
    both = profile("a")
    queue = ScouterQueue.from_profile({"a": both, "b": both, "c": profile("c")}, MockConfig())
    queue.enable_capture()
    slot = queue.get_by_entity_uid(both.uid)
    slot.insert(EvalRecord({"n": 1}))
    queue["c"].insert(EvalRecord({"n": 2}))
    assert slot is queue["a"]
    assert [record.context for record in slot.drain()] == [{"n": 1}]
    assert slot.drain() == []
    assert [record.context for record in queue["c"].drain()] == [{"n": 2}]
    with pytest.raises(UnknownProfileError, match="no profile has the uid 'u'"):
        queue.get_by_entity_uid("u")
