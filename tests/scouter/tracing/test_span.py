"""ScouterSpan is an OpenTelemetry span that takes more."""

import datetime
import enum
import functools
import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, Final
from uuid import UUID

import numpy as np
import pytest
from opentelemetry import trace
from opentelemetry import trace as otel
from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.trace.status import Status, StatusCode
from pydantic import BaseModel

import scouter.trace
from scouter.errors import ConfigError, UnknownProfileError
from scouter.evaluate.tasks.span_filter import KindName, SpanFilter
from scouter.model.record import EvalRecord
from scouter.model.span import StatusCode as Code
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing import SpanKind
from scouter.tracing.tracer import ScouterTracer, get_current_active_span, init_tracer
from scouter.tracing.values import attribute_value, json_text
from scouter.transport.config import MockConfig
from tests.scouter.queue.profiles import profile
from tests.scouter.tracing.conftest import Captured


@pytest.fixture
def tracer(captured: Captured) -> ScouterTracer:
    del captured
    return init_tracer("shop")


class Unshowable:
    def __repr__(self) -> str:
        raise ZeroDivisionError


_CARRIED: Final[list[tuple[Any, Any]]] = [
    ("text", "text"),
    (True, True),
    (2.5, 2.5),
    (b"raw", b"raw"),
    (2**63 - 1, 2**63 - 1),
    (2**63, "9223372036854775808"),
    (["a", "b"], ("a", "b")),
    ((1, 2), (1, 2)),
    ([1, 2**70], "[1,1180591620717411303424]"),
    ([1, "a"], (1, "a")),
    ([True, 1], (True, 1)),
    ([1, 0.5], (1, 0.5)),
    (["a", None], ("a", None)),
    ([None], (None,)),
    ([], ()),
    ((), ()),
    (set(), ()),
    (range(3), (0, 1, 2)),
    (deque(["a"]), ("a",)),
    ([b"raw"], ("cmF3",)),
    ({}, {}),
    ([[]], "[[]]"),
    ([{}], "[{}]"),
    ({"a": [1]}, '{"a":[1]}'),
    (None, None),
    ({"é"}, ("é",)),
    (np.int64(3), 3),
    (np.bool_(True), True),
    (np.float32(0.5), 0.5),
    (np.array(5), 5),
    (Decimal("1.10"), "1.10"),
    (datetime.date(2024, 1, 1), "2024-01-01"),
    (PurePosixPath("/x"), "/x"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
]


@pytest.mark.parametrize(("value", "carried"), _CARRIED)
def test_what_opentelemetry_cannot_carry_becomes_json(value: object, carried: object) -> None:
    assert attribute_value(value) == carried
    assert type(attribute_value(value)) is type(carried)


def test_json_text_takes_anything() -> None:
    text, is_cut = json_text({"f": len, "deep": ["x" * 50]}, max_length=10)

    assert json.loads(text) == {"f": repr(len)[:10], "deep": ["x" * 10]}
    assert is_cut
    assert json_text(len, 1000) == (json.dumps(repr(len)), False)


def test_inputs_are_cut_by_characters(tracer: ScouterTracer, captured: Captured) -> None:
    """Three characters of any length in bytes; the JSON around them stays whole."""
    with tracer.start_as_current_span("s") as span:
        span.set_input({"q": "żółw", "n": [1, "日本語だ"]}, max_length=3)
        span.set_output("ok")

    attributes = captured["s"].attributes
    assert json.loads(str(attributes["scouter.tracing.input"])) == {"q": "żół", "n": [1, "日本語"]}
    assert attributes["scouter.tracing.output"] == '"ok"'


def test_tags_label_and_entity(tracer: ScouterTracer, captured: Captured) -> None:
    with tracer.start_as_current_span(
        "s", tags=[{"tier": "gold"}, {"n": 1}], label="step", attributes={"a": {"b": 1}}
    ) as span:
        span.set_tag("more", [1, "x"])
        span.set_entity("uid-1")
        span.set_attributes({"x": 1, "y": {"z": None}})

    assert captured["s"].attributes == {
        "a": '{"b":1}',
        "scouter.tracing.tag.tier": "gold",
        "scouter.tracing.tag.n": 1,
        "scouter.tracing.label": "step",
        "scouter.tracing.tag.more": (1, "x"),
        "scouter.entity.uid-1": "uid-1",
        "x": 1,
        "y": '{"z":null}',
    }


def test_a_value_that_cannot_even_be_shown_is_left_out_or_named(
    tracer: ScouterTracer, captured: Captured
) -> None:
    with tracer.start_as_current_span("s") as span:
        span.set_attribute("bad", Unshowable())
        span.set_input(Unshowable())
        span.set_attribute("good", 1)

    assert captured["s"].attributes == {"scouter.tracing.input": '"<Unshowable>"', "good": 1}


def test_it_is_the_current_span_and_a_parent(tracer: ScouterTracer, captured: Captured) -> None:
    with tracer.start_as_current_span("outer") as outer:
        assert trace.get_current_span() is outer
        assert tracer.current_span is outer
        assert get_current_active_span() is outer
        with tracer.start_as_current_span("inner") as inner:
            assert inner.trace_id == outer.trace_id
        assert trace.get_current_span() is outer
    assert trace.get_current_span() is trace.INVALID_SPAN

    assert captured["inner"].parent_span_id == captured["outer"].span_id == outer.span_id
    assert captured["outer"].resource.service_name == "shop"


def test_opentelemetrys_own_methods_pass_through(tracer: ScouterTracer, captured: Captured) -> None:
    linked = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1))
    span = tracer.start_span("before")
    span.add_event("hit", {"a": {"b": 1}}, timestamp=5)
    span.add_link(linked, {"why": "x"})
    span.update_name("after")
    span.set_status(Status(StatusCode.ERROR, "bad"))
    span.record_exception(ValueError("no"))
    assert span.is_recording()
    assert span.name == "after"  # a property of the SDK span
    span.end(end_time=10**18)
    assert not span.is_recording()
    span.set_attribute("late", 1)
    span.set_input("late")

    found = captured["after"]
    assert found.end_ns == 10**18
    assert (found.status, found.status_message) == (Code.ERROR, "bad")
    assert [event.name for event in found.events] == ["hit", "exception"]
    assert found.events[0].attributes == {"a": '{"b":1}'}
    assert found.events[1].attributes["exception.type"] == "ValueError"
    assert found.links[0].span_id == f"{2:016x}"
    assert found.attributes == {}


@pytest.mark.parametrize("flag", [True, False])
def test_an_exception_is_noted_as_the_flags_say(
    tracer: ScouterTracer, captured: Captured, flag: bool
) -> None:
    def work() -> None:
        with tracer.start_as_current_span("s", record_exception=flag, set_status_on_exception=flag):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        work()

    found = captured["s"]
    assert (found.status is Code.ERROR) is flag
    assert len(found.events) == int(flag)
    assert found.status_message == ("ValueError: no" if flag else "")


def test_a_span_can_outlive_its_block(tracer: ScouterTracer, captured: Captured) -> None:
    with tracer.start_as_current_span("s", end_on_exit=False) as span:
        pass
    assert captured.names() == []
    span.end()
    assert captured.names() == ["s"]


def test_a_foreign_current_span_is_wrapped(app: Any) -> None:
    provider, exporter = app
    with provider.get_tracer("x").start_as_current_span("foreign"):
        get_current_active_span().set_tag("k", "v")

    assert dict(exporter.spans[0].attributes) == {"scouter.tracing.tag.k": "v"}


class Usage(BaseModel):
    tokens: int
    model: str


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        ({"a": 1}, {"a": 1}),
        ([{"a": "1"}, {"b": [1, "x"]}], {"a": "1", "b": (1, "x")}),
        (({"a": 1}, {"a": 2}), {"a": 2}),
        ([], {}),
        (None, {}),
        (Usage(tokens=3, model="m"), {"tokens": 3, "model": "m"}),
        ("text", {}),
        ([1], {}),
        (object(), {}),
    ],
)
def test_attributes_in_every_form(
    tracer: ScouterTracer, captured: Captured, given: Any, attributes: dict[str, object]
) -> None:
    with tracer.start_as_current_span("s", attributes=given) as span:
        span.add_event("e", given)
    tracer.span("call", attributes=given, record_io=False)(int)()

    assert captured["s"].attributes == attributes
    assert captured["s"].events[0].attributes == attributes
    assert attributes.items() <= captured["call"].attributes.items()


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("OK", Code.OK),
        ("ok", Code.OK),
        ("Error", Code.ERROR),
        ("UNSET", Code.UNSET),
        ("fine", Code.UNSET),
        (StatusCode.ERROR, Code.ERROR),
    ],
)
def test_status_as_text(
    tracer: ScouterTracer, captured: Captured, given: str | StatusCode, code: Code
) -> None:
    with tracer.start_as_current_span("s") as span:
        span.set_status(given, "why" if code is Code.ERROR else None)
    assert captured["s"].status is code
    assert captured["s"].status_message == ("why" if code is Code.ERROR else "")


# --- records ---


def test_a_record_belongs_to_the_spans_trace(captured: Captured) -> None:
    queue = ScouterQueue.from_profile(profile("a"), MockConfig())
    queue.enable_capture()
    tracer = init_tracer(scouter_queue=queue)
    record = EvalRecord({"n": 1})
    with tracer.start_as_current_span("outer") as outer, tracer.start_as_current_span("inner"):
        outer.add_queue_item("a", record)

    assert record.trace_id == outer.trace_id
    (record,) = queue.drain_records("a")
    assert record.trace_id == outer.trace_id
    (event,) = captured["outer"].events
    assert event.name == "scouter.queue.event"
    assert event.attributes == {"scouter.queue.record": record.uid, "scouter.queue.profile": "a"}


def test_a_record_used_twice_belongs_to_each_trace(captured: Captured) -> None:
    """Such as one made once at import and inserted at each call."""
    del captured
    queue = ScouterQueue.from_profile(profile("a"), MockConfig())
    queue.enable_capture()
    tracer = init_tracer(scouter_queue=queue)
    record = EvalRecord({"n": 1})
    traces: list[str] = []
    for _ in range(2):
        with tracer.start_as_current_span("s") as span:
            span.add_queue_item("a", record)
            traces.append(span.trace_id)

    records = queue.drain_records("a")
    assert [item.trace_id for item in records] == traces
    assert records[0].uid != records[1].uid


def test_bad_data_does_not_reach_the_agent(captured: Captured) -> None:
    queue = ScouterQueue.from_profile(profile("a"), MockConfig())
    tracer = init_tracer(scouter_queue=queue)
    with tracer.start_as_current_span("s") as span:
        span.add_queue_item("a", EvalRecord(object()))

    assert queue.stats.dropped == {"invalid": 1}
    assert captured["s"].events == ()


def test_mistakes_in_the_set_up_are_raised(tracer: ScouterTracer) -> None:
    with tracer.start_as_current_span("s") as span:
        with pytest.raises(
            ConfigError, match=r"add_queue_item\('a'\): no queue; pass scouter_queue"
        ):
            span.add_queue_item("a", EvalRecord())
        with pytest.raises(ConfigError, match=r"attach_eval\('u'\): no queue; pass scouter_queue="):
            span.attach_eval("u", {})
        tracer.set_scouter_queue(ScouterQueue.from_profile(profile("a"), MockConfig()))
        with pytest.raises(UnknownProfileError, match="alias 'b'; registered: 'a'"):
            span.add_queue_item("b", EvalRecord())
        with pytest.raises(UnknownProfileError, match=f"uid 'u'; registered: '{profile('a').uid}'"):
            span.attach_eval("u", {})


@pytest.mark.parametrize("way", ["spans", "records"])
def test_mistakes_in_the_set_up_are_raised_in_a_replay(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Whichever of the two the replay keeps here: the queue may be another one than its own."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    queue = ScouterQueue.from_profile(profile("a"), MockConfig())
    tracer = init_tracer(scouter_queue=queue)
    if way == "spans":
        tracer.enable_local_capture()
    else:
        queue.enable_capture()
    with tracer.start_as_current_span("s") as span, pytest.raises(UnknownProfileError):
        span.add_queue_item("b", EvalRecord())


def test_mistakes_in_the_set_up_do_not_stop_an_agent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Outside of a test and a replay: each is counted, and logged the first time."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    tracer = init_tracer()
    with tracer.start_as_current_span("s") as span:
        span.add_queue_item("a", EvalRecord())
    assert "add_queue_item('a'): no queue; pass scouter_queue=" in caplog.text

    caplog.clear()
    queue = ScouterQueue.from_profile([profile("a"), profile("c")], MockConfig())
    tracer.set_scouter_queue(queue)
    with tracer.start_as_current_span("s") as span:
        for _ in range(3):
            span.add_queue_item("b", EvalRecord())
        span.attach_eval("u", {"n": 1})
        span.add_queue_item("a", EvalRecord())
    assert [record.getMessage().split(";")[0] for record in caplog.records] == [
        "add_queue_item('b'): no profile has the alias 'b'",
        "attach_eval('u'): no profile has the uid 'u'",
    ]
    assert queue.stats.dropped == {"unknown_profile": 4}
    assert queue.stats.inserted == 5


PROGRAM = """
import unittest
from scouter.transport.guard import is_test_run

class Case(unittest.TestCase):
    def test(self):
        print(is_test_run())

if __name__ == "__main__":
    print(is_test_run())
"""


@pytest.mark.parametrize(
    ("how", "said"), [(["program.py"], "False"), (["-m", "unittest", "program"], "True")]
)
def test_what_is_a_test(tmp_path: Path, how: list[str], said: str) -> None:
    """A program that a test starts inherits pytest's variable, and is none."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, *how], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{said}\n"


# --- records made by the span ---


def test_a_span_makes_the_record(captured: Captured) -> None:
    queue = ScouterQueue.from_profile([profile("a"), profile("b")], MockConfig())
    queue.enable_capture()
    tracer = init_tracer(scouter_queue=queue)
    uid = queue["b"].profile.config.uid
    with tracer.start_as_current_span("s") as span:
        span.attach_eval(
            profile_uid=uid,
            context={"answer": "tacos"},
            record_id="r1",
            session_id="talk",
            tags=["source=adk", "agent=triage=1"],
        )
        span.attach_eval(uid, {"answer": "soup"}, tags={"source": "own"})

    (first, second) = queue.drain_records("b")
    assert (first.context, first.record_id, first.session_id) == ({"answer": "tacos"}, "r1", "talk")
    assert first.tag_map == {"source": "adk", "agent": "triage=1"}
    assert (second.context, second.record_id) == ({"answer": "soup"}, "")
    assert second.tag_map == {"source": "own"}
    assert first.trace_id == second.trace_id == span.trace_id
    assert queue.drain_records("a") == []
    assert [event.attributes["scouter.queue.record"] for event in captured["s"].events] == [
        first.uid,
        second.uid,
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {"context": object()},
        {"context": {}, "tags": ["no sign"]},
        {"context": {}, "tags": "a=b"},
        {"context": {}, "tags": 5},
        {"context": {}, "record_id": object()},
        {"context": {}, "session_id": ["s"]},
    ],
)
def test_a_record_that_cannot_be_made_is_counted(
    caplog: pytest.LogCaptureFixture, bad: dict[str, Any]
) -> None:
    queue = ScouterQueue.from_profile(profile("a"), MockConfig())
    with init_tracer(scouter_queue=queue).start_as_current_span("s") as span:
        span.attach_eval(profile("a").uid, **bad)
    assert queue.stats.dropped == {"invalid": 1}
    assert "queue 'a'" in caplog.text


class Level(enum.StrEnum):
    LOW = "low"


class Code2(enum.IntEnum):
    ONE = 1


class Colour(enum.Enum):
    RED = "red"


class Loud(str):
    def __str__(self) -> str:
        return "LOUD"


@pytest.mark.parametrize(
    ("value", "carried"),
    [
        (Level.LOW, "low"),
        (Code2.ONE, 1),
        (Colour.RED, "red"),
        (Loud("quiet"), "quiet"),
        ([Level.LOW, "b"], ("low", "b")),
        ([Code2.ONE, 2], (1, 2)),
    ],
)
def test_enums_and_subclasses_are_carried_as_their_values(value: object, carried: object) -> None:
    found = attribute_value(value)
    assert found == carried
    assert type(found) is type(carried)
    items = found if isinstance(found, tuple) else (found,)
    assert {type(item) for item in items} <= {str, int}


@pytest.mark.parametrize(
    "odd",
    [Unshowable(), 10**5000, [10**5000], {"a": Unshowable()}],
    ids=["no repr", "too many digits", "too many digits inside", "no repr inside"],
)
def test_no_odd_value_reaches_the_agent(
    tracer: ScouterTracer, captured: Captured, odd: object
) -> None:
    pairs: Any = {"odd": odd, 7: "seven"}
    with tracer.start_as_current_span("s", attributes=pairs, tags=pairs, baggage=pairs) as span:
        span.set_attribute("odd2", odd)
        span.set_attributes(pairs)
        span.set_tag("odd3", odd)
        span.add_event("e", pairs)
        span.set_input(odd)
        span.record_exception(ValueError("x"), pairs)

    attributes = captured["s"].attributes
    assert attributes["7"] == "seven"
    assert attributes["scouter.tracing.tag.7"] == "seven"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


def test_the_agents_own_exception_passes_even_if_it_cannot_be_shown(
    tracer: ScouterTracer, captured: Captured
) -> None:
    @tracer.span("call")
    def call() -> None:
        raise Unspeakable

    with pytest.raises(Unspeakable):
        call()

    span = captured["call"]
    assert span.status_message == "Unspeakable: <Unspeakable>"
    assert [event.name for event in span.events] == ["exception"]


def test_a_partial_can_be_decorated(tracer: ScouterTracer, captured: Captured) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    traced: Any = tracer.span()(functools.partial(add, 1))

    assert traced(2) == 3
    name = "test_a_partial_can_be_decorated.<locals>.add"
    assert captured[name].attributes["function.name"] == "add"


@pytest.mark.parametrize(
    "value",
    [
        [1] * 100_000,
        ["x" * 900] * 1000,
        {f"{n:0900}": n for n in range(1000)},
        [[[1] * 9] * 99] * 99,
    ],
    ids=["many numbers", "many texts", "many long keys", "many lists"],
)
def test_inputs_are_bounded_as_a_whole(
    tracer: ScouterTracer, captured: Captured, value: object
) -> None:
    with tracer.start_as_current_span("s") as span:
        span.set_input(value)

    text = str(captured["s"].attributes["scouter.tracing.input"])
    assert len(text) < 300_000
    assert "…" in str(json.loads(text))


def test_the_text_of_an_exception_is_bounded(tracer: ScouterTracer, captured: Captured) -> None:
    with pytest.raises(ValueError, match="xxx"), tracer.start_as_current_span("s"):
        raise ValueError("x" * 1_000_000)

    (event,) = captured["s"].events
    assert event.attributes["exception.message"] == "x" * 8192
    assert len(captured["s"].status_message) < 9000
    assert "test_span.py" in str(event.attributes["exception.stacktrace"])
    assert len(str(event.attributes["exception.stacktrace"])) <= 8192


NAMES: tuple[KindName, ...] = ("Internal", "Server", "Client", "Producer", "Consumer")


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_under_both_names(name: KindName, captured: Captured) -> None:
    kind = otel.SpanKind[name.upper()]
    spelt = [getattr(SpanKind, name), getattr(SpanKind, name.upper())]
    given = [SpanKind[name], SpanKind[name.upper()], SpanKind(kind.value)]
    assert all(each is kind and isinstance(each, SpanKind) for each in spelt + given)
    tracer = init_tracer()
    with tracer.start_as_current_span("with", kind=kind):
        pass
    tracer.span("call", kind=kind)(str)("x")
    assert [captured["with"].kind.name, captured["call"].kind.name] == [name.upper()] * 2
    assert SpanFilter.by_kind(kind) == SpanFilter.by_kind(name)


def test_it_answers_as_the_enum_does() -> None:
    assert scouter.trace.SpanKind is SpanKind
    assert list(SpanKind) == list(otel.SpanKind)
    assert len(SpanKind) == 5
    assert otel.SpanKind.CLIENT in SpanKind
    with pytest.raises(KeyError):
        SpanKind["Sideways"]
    with pytest.raises(ValueError, match="99"):
        SpanKind(99)


@pytest.mark.parametrize("start", ["start_span", "start_as_current_span"])
def test_no_kind_is_internal(start: str, captured: Captured) -> None:
    begin: Callable[..., otel.Span] = getattr(init_tracer(), start)
    with begin("s", kind=None):  # pyright: ignore[reportGeneralTypeIssues] both are context managers
        pass
    assert captured["s"].kind.name == "INTERNAL"
