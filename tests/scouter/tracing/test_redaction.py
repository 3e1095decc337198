"""Data that a rule names does not leave the process, and nothing else changes."""

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)
from pydantic import SecretStr

from scouter.errors import ConfigError, TransientError
from scouter.model.record import EvalRecord
from scouter.queue.redaction import Redaction, RedactionRule, Redactor
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.capture import CAPTURE
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.stamp import RedactedSpan
from scouter.tracing.tracer import flush_tracer, get_tracer, init_tracer
from scouter.transport.config import HttpConfig, MockConfig, SpoolConfig, TransportConfig
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.guard import GUARD
from scouter.transport.port import MockTransport, Transport
from tests.scouter.queue.profiles import profile
from tests.scouter.tracing.conftest import AppExporter
from tests.scouter.transport.receiver import run_receiver

KEY = "a key of the user's"
SECRET = "bob@example.com"
MAIL = r"[\w.]+@[\w.]+\w"
WAIT_S = 120


def rules(*given: RedactionRule) -> Redaction:
    return Redaction(rules=given, hash_key=SecretStr(KEY), mask="***")


def rule(action: Any, **place: str) -> RedactionRule:
    return RedactionRule(action=action, **place)


def digest(text: str) -> str:
    return "hmac:" + hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("given", "context", "expected"),
    [
        (rule("drop", context="a.b"), {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
        (rule("mask", context="a"), {"a": {"b": 1}}, {"a": "***"}),
        (rule("hash", context="a"), {"a": SECRET}, {"a": digest(SECRET)}),
        (rule("hash", context="a"), {"a": {"y": 1, "x": [2]}}, {"a": digest('{"x": [2], "y": 1}')}),
        (
            rule("drop", context="items[*].id"),
            {"items": [{"id": 1}, {"n": 2}]},
            {"items": [{}, {"n": 2}]},
        ),
        (rule("drop", context="items[1:]"), {"items": [1, 2, 3]}, {"items": [1, None, None]}),
        (rule("mask", context="items.0"), {"items": [1, 2]}, {"items": ["***", 2]}),
        (rule("mask", context="items[-1]"), {"items": [1, 2]}, {"items": [1, "***"]}),
        (rule("mask", context="*.b"), {"x": {"b": 1}, "y": 2}, {"x": {"b": "***"}, "y": 2}),
        (rule("drop", context="not.there"), {"a": 1}, {"a": 1}),
        (rule("drop", context="a.b[3]"), {"a": {"b": [1]}}, {"a": {"b": [1]}}),
        (
            rule("mask", pattern=MAIL),
            {"a": [f"to {SECRET}, al@x.org.", {SECRET: 7}], "n": 5, "é": None},
            {"a": ["to ***, ***.", {"***": 7}], "n": 5, "é": None},
        ),
        (rule("drop", pattern=MAIL), {"a": f"to {SECRET}!"}, {"a": "to !"}),
        (rule("hash", pattern=MAIL), {"a": f"to {SECRET}!"}, {"a": f"to {digest(SECRET)}!"}),
        (
            rule("mask", pattern=MAIL, context="a"),
            {"a": SECRET, "b": SECRET},
            {"a": "***", "b": SECRET},
        ),
        (
            rule("mask", pattern=r"\d{16}"),
            {"card": 4111111111111111, "n": 12},
            {"card": "***", "n": 12},
        ),
        (rule("mask", pattern="x|y"), {"x": 1, "y": 2}, {"***": 1, "****": 2}),
        (rule("drop", attribute="a"), {"a": 1}, {"a": 1}),
    ],
)
def test_rules_on_contexts_by_hand(given: RedactionRule, context: Any, expected: Any) -> None:
    assert Redactor(rules(given)).context(context) == expected


@pytest.mark.parametrize(
    ("given", "attributes", "expected"),
    [
        (rule("drop", attribute="user.*"), {"user.id": 1, "user": 2}, {"user": 2}),
        (rule("mask", attribute="*.messages"), {"a.messages": ("x", "y")}, {"a.messages": "***"}),
        (rule("hash", attribute="user.id"), {"user.id": SECRET}, {"user.id": digest(SECRET)}),
        (rule("hash", attribute="user.id"), {"user.id": 7}, {"user.id": digest("7")}),
        (
            rule("mask", pattern=MAIL),
            {"t": (SECRET, "x"), "m": {"k": [SECRET]}, "b": SECRET.encode(), f"tag {SECRET}": True},
            {"t": ("***", "x"), "m": {"k": ["***"]}, "b": b"***", "tag ***": True},
        ),
        (
            rule("mask", pattern=MAIL, attribute="a"),
            {"a": SECRET, "b": SECRET},
            {"a": "***", "b": SECRET},
        ),
        (rule("drop", context="a"), {"a": 1}, {"a": 1}),
        (rule("mask", attribute="a.b"), {"axb": 1}, {"axb": 1}),
    ],
)
def test_rules_on_attributes_by_hand(given: RedactionRule, attributes: Any, expected: Any) -> None:
    assert Redactor(rules(given)).attributes(attributes) == expected


def test_rules_are_applied_in_order() -> None:
    """The place first: what it drops no pattern sees; then each pattern on the last one's text."""
    redactor = Redactor(
        rules(
            rule("mask", pattern="secret"),
            rule("drop", context="a"),
            rule("drop", pattern=r"\*+ "),
        )
    )
    assert redactor.context({"a": "secret", "b": "my secret word"}) == {"b": "my word"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (rule("mask"), "expected attribute=, context= or pattern="),
        (rule("mask", attribute="a", context="b"), "one rule for each place"),
        (rule("mask", context="a..b"), "expected a key"),
        (rule("mask", pattern="("), "pattern"),
        (rule("mask", pattern="a*"), "finds the empty text"),
        (rule("mask", pattern=r"(?=a)"), "look-around is not supported"),
    ],
)
def test_mistakes_are_named_when_the_queue_is_made(given: RedactionRule, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ScouterQueue.from_profile(profile("a"), MockConfig(), redaction=rules(given))


def test_a_hash_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCOUTER_REDACTION_KEY", raising=False)
    hashes = rule("hash", context="a")
    with pytest.raises(ConfigError, match="SCOUTER_REDACTION_KEY"):
        Redactor(Redaction(rules=(hashes,)))
    monkeypatch.setenv("SCOUTER_REDACTION_KEY", KEY)
    assert Redactor(Redaction(rules=(hashes,))).context({"a": "x"}) == {"a": digest("x")}
    assert KEY not in repr(rules(hashes))


def test_no_redacted_text_of_a_record_is_on_the_wire() -> None:
    """The record in the agent's hands stays as it is; ids are hashed alike in both worlds."""
    with run_receiver() as receiver:
        queue = ScouterQueue.from_profile(
            profile("a"),
            HttpConfig(server_uri=receiver.uri),
            redaction=rules(rule("hash", pattern=MAIL)),
        )
        record = EvalRecord({"to": [SECRET]}, SECRET, SECRET, tags={"who": SECRET, SECRET: "x"})
        queue["a"].insert(record)
        assert queue.flush(WAIT_S)
        queue.shutdown()
        sent = receiver.records()

    assert SECRET not in json.dumps(sent)
    (item,) = sent
    assert item["context"] == {"to": [digest(SECRET)]}
    assert item["session_id"] == item["record_id"] == digest(SECRET)
    assert item["tags"] == {"who": digest(SECRET), digest(SECRET): "x"}
    assert item["uid"] == record.uid
    assert record.context == {"to": [SECRET]}


@pytest.mark.parametrize(
    ("action", "mask", "left"),
    [
        ("mask", "***", "o=1,v=user ***!"),
        ("hash", "***", f"o=1,v=user {digest(SECRET)}!"),
        ("drop", "***", "o=1,v=user !"),
        ("mask", "a,b=c", "o=1"),  # no value of a tracestate
        ("mask", "ü", "o=1"),
    ],
)
def test_tracestate_is_redacted(action: Any, mask: str, left: str) -> None:
    """The span's, taken over from its caller, and a link's; an application's exporter sees all."""
    state = TraceState([("o", "1"), ("v", f"user {SECRET}!")])
    caller = SpanContext(5, 6, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)
    seen = AppExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(seen)
    redaction = Redaction(rules=(rule(action, pattern=MAIL),), hash_key=SecretStr(KEY), mask=mask)
    with run_receiver() as receiver:
        ScouterInstrumentor().instrument(
            transport_config=HttpConfig(server_uri=receiver.uri),
            tracer_provider=provider,
            redaction=redaction,
        )
        around = set_span_in_context(NonRecordingSpan(caller))
        provider.get_tracer("lib").start_span("s", around, links=[Link(caller)]).end()
        assert flush_tracer(WAIT_S)
        (span,) = receiver.spans()
        (request,) = receiver.requests
        ScouterInstrumentor().uninstrument()

    assert span.trace_state == left
    assert SECRET.encode() not in request.body
    (original,) = seen.spans
    context = original.get_span_context()
    assert context is not None
    assert context.trace_state == state
    assert original.links[0].context.trace_state == state
    ours = RedactedSpan(original, Redactor(redaction)).links[0].context
    assert (ours.trace_id, ours.is_remote, ours.trace_state.to_header()) == (5, True, left)


def make_everywhere(provider: TracerProvider) -> None:
    """A span with the secret in every text that a span has."""
    other = SpanContext(5, 6, is_remote=True, trace_flags=TraceFlags(1))
    tracer = provider.get_tracer("lib", attributes={"scope": SECRET})
    span = tracer.start_span(
        f"mail {SECRET}", attributes={"to": SECRET, SECRET: 1}, links=[Link(other, {"l": SECRET})]
    )
    span.add_event(f"event {SECRET}", {"e": (SECRET,)})
    span.record_exception(ValueError(SECRET))
    span.set_status(Status(StatusCode.ERROR, f"failed {SECRET}"))
    span.end()


def test_no_redacted_text_of_a_span_is_on_the_wire_and_the_app_sees_all() -> None:
    """Every text of a span holds the secret: ours has none, the application's exporter all."""
    seen = AppExporter()
    provider = TracerProvider(resource=Resource({"host": SECRET}), shutdown_on_exit=False)
    provider.add_span_processor(seen)
    late = AppExporter()
    with run_receiver() as receiver:
        ScouterInstrumentor().instrument(
            transport_config=HttpConfig(server_uri=receiver.uri),
            tracer_provider=provider,
            attributes={"mine": SECRET},
            redaction=rules(rule("mask", pattern=MAIL)),
        )
        provider.add_span_processor(late)
        make_everywhere(provider)
        assert flush_tracer(WAIT_S)
        (span,) = receiver.spans()
        bodies = b"".join(request.body for request in receiver.requests)
        ScouterInstrumentor().uninstrument()

    assert bodies
    assert SECRET.encode() not in bodies
    assert span.name == "mail ***"
    assert span.attributes["to"] == span.attributes["mine"] == "***"
    assert span.resource.attributes["host"] == "***"
    assert [event.name for event in span.events] == ["event ***", "exception"]
    assert span.status_message == "failed ***"
    for exporter in (seen, late):
        (theirs,) = exporter.spans
        assert theirs.name == f"mail {SECRET}"
        assert dict(theirs.attributes or {}) == {"to": SECRET, SECRET: 1}
        assert theirs.events[0].name == f"event {SECRET}"
        assert theirs.resource.attributes["host"] == SECRET
        assert theirs.status.description == f"failed {SECRET}"


def test_no_redacted_text_is_in_the_spool(tmp_path: Path) -> None:
    """Nobody takes the record and the span: both are on disk."""
    spool = SpoolConfig(folder=tmp_path / "spool")
    config = HttpConfig(server_uri="http://127.0.0.1:9", spool=spool)
    redaction = rules(rule("mask", pattern=MAIL))
    queue = ScouterQueue.from_profile(profile("a"), config, redaction=redaction)
    tracer = init_tracer(scouter_queue=queue)
    tracer.start_span("plain", attributes={"to": SECRET}).end()
    queue["a"].insert(EvalRecord({"word": "plain", "to": SECRET}))
    assert flush_tracer(WAIT_S)
    assert queue.flush(WAIT_S)
    assert spool.stats().waiting == 2
    written = b"".join(path.read_bytes() for path in spool.folder.glob("spool*"))
    queue.shutdown(0.1)
    RUNTIME.shutdown(0.1)

    assert SECRET.encode() not in written
    with closing(sqlite3.connect(spool.folder / "spool-1.sqlite")) as db:
        rows = b"".join(payload for (payload,) in db.execute("SELECT payload FROM waiting"))
    assert rows.count(b"plain") == rows.count(b"***") == 2


def test_redaction_of_either_holds_for_both() -> None:
    """Given to the queue it holds for spans, given to the tracer it holds for records."""
    for of_queue in (True, False):
        redaction = rules(rule("mask", pattern=MAIL))
        with run_receiver() as receiver:
            queue = ScouterQueue.from_profile(
                profile("a"),
                HttpConfig(server_uri=receiver.uri),
                redaction=redaction if of_queue else None,
            )
            tracer = init_tracer(scouter_queue=queue, redaction=None if of_queue else redaction)
            with tracer.start_as_current_span("s", attributes={"to": SECRET}) as span:
                span.add_queue_item("a", EvalRecord({"to": SECRET}))
            assert flush_tracer(WAIT_S)
            assert queue.flush(WAIT_S)
            assert receiver.records()[0]["context"] == {"to": "***"}
            assert receiver.spans()[0].attributes["to"] == "***"
            queue.shutdown()
        RUNTIME.shutdown(5.0)


@pytest.mark.parametrize("is_late", [False, True])
def test_redaction_holds_for_the_queue_of_every_tracer(is_late: bool) -> None:
    """Whichever comes first, the tracer or the rules; rules of a queue's own stay."""
    with run_receiver() as receiver:
        config = HttpConfig(server_uri=receiver.uri)
        of_mail = rules(rule("mask", pattern=MAIL))
        of_name = rules(rule("drop", context="name"))
        plain = ScouterQueue.from_profile(profile("a"), config)
        own = ScouterQueue.from_profile(profile("a"), config, redaction=of_name)
        process = ScouterQueue.from_profile(profile("a"), config)
        init_tracer(transport_config=MockConfig())
        if not is_late:
            init_tracer(scouter_queue=process, redaction=of_mail)
        tracers = [get_tracer("one", scouter_queue=plain), get_tracer("two", scouter_queue=own)]
        if is_late:
            init_tracer(scouter_queue=process, redaction=rules(rule("mask", pattern="x")))
            tracers.append(init_tracer())
            init_tracer(redaction=of_mail)
        else:
            tracers.append(init_tracer())
        for tracer in tracers:
            with tracer.start_as_current_span("s") as span:
                span.add_queue_item("a", EvalRecord({"to": SECRET, "name": "Bob"}))
        for queue in (plain, own, process):
            assert queue.flush(WAIT_S)
            queue.shutdown()
        sent = [record["context"] for record in receiver.records()]

    masked = {"to": "***", "name": "Bob"}
    assert sent == [masked, {"to": SECRET}, masked]


def test_offline_tasks_find_what_the_collector_would() -> None:
    queue = ScouterQueue.from_profile(
        profile("a"), MockConfig(), redaction=rules(rule("mask", pattern=MAIL))
    )
    tracer = init_tracer(scouter_queue=queue)
    CAPTURE.enable()
    queue.enable_capture()
    with tracer.start_as_current_span("s", attributes={"to": SECRET}):
        queue["a"].insert(EvalRecord({"to": SECRET}))

    assert [r.context for r in queue.drain_records("a")] == [{"to": "***"}]
    assert [s.attributes["to"] for s in CAPTURE.drain()] == ["***"]
    CAPTURE.disable()


def test_what_cannot_be_redacted_is_not_sent_but_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("bug")

    with run_receiver() as receiver:
        queue = ScouterQueue.from_profile(
            profile("a"),
            HttpConfig(server_uri=receiver.uri),
            redaction=rules(rule("mask", pattern="x")),
        )
        tracer = init_tracer(scouter_queue=queue)
        monkeypatch.setattr(Redactor, "record", broken)
        monkeypatch.setattr(Redactor, "attributes", broken)
        GUARD.strict = False
        queue["a"].insert(EvalRecord({"to": SECRET}))
        tracer.start_span("s").end()
        assert queue.flush(WAIT_S)
        assert flush_tracer(WAIT_S)
        assert queue.stats.dropped == {"internal": 1}
        assert RUNTIME.stats.dropped == {"internal": 1}
        assert receiver.spans() == []
        queue.shutdown()


class _Hesitant(MockTransport):
    """Takes nothing at first, and notes the resources of every attempt."""

    seen: ClassVar[list[dict[str, Any]]] = []

    def send_spans(self, spans: Sequence[ReadableSpan], dropped: Dropped = NONE_DROPPED) -> int:
        del dropped
        self.seen.extend(dict(span.resource.attributes) for span in spans)
        raise TransientError("away", retry_after_s=0.5)


class _HesitantConfig(TransportConfig):
    def open(self) -> Transport:
        return _Hesitant()


def test_what_is_sent_again_while_tracing_shuts_down_is_redacted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second attempt comes after shutting down has waited in vain for the first."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"user.email={SECRET}")
    _Hesitant.seen.clear()
    tracer = init_tracer(
        service_name="shop",
        transport_config=_HesitantConfig(),
        redaction=rules(rule("mask", pattern=MAIL)),
    )
    tracer.start_span("s").end()
    assert not RUNTIME.shutdown(0.4)

    assert [(each["user.email"], each["service.name"]) for each in _Hesitant.seen] == [
        ("***", "shop"),
        ("***", "shop"),
    ]
