"""ScouterSpan: an OpenTelemetry span that also takes tags, inputs, outputs and records."""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import SpanContext
from opentelemetry.trace.status import Status, StatusCode
from opentelemetry.util import types

from scouter.errors import ConfigError, DataError
from scouter.model.attributes import (
    ENTITY_PREFIX,
    INPUT,
    LABEL,
    OUTPUT,
    QUEUE_EVENT,
    QUEUE_PROFILE,
    QUEUE_RECORD,
    TAG_PREFIX,
    TRUNCATED,
    truncated_mark,
)
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import Queue, ScouterQueue
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.values import attribute_values, json_text
from scouter.transport.guard import GUARD, is_test_run, text_of


class _Kinds(type):
    """Answers as OpenTelemetry's enum does, whose members cannot get further names."""

    def __call__(cls, value: object) -> trace.SpanKind:  # pyright: ignore[reportIncompatibleMethodOverride] - as an enum's class
        return trace.SpanKind(value)

    def __getitem__(cls, name: str) -> trace.SpanKind:
        return trace.SpanKind[name.upper()]

    def __iter__(cls) -> Iterator[trace.SpanKind]:
        return iter(trace.SpanKind)

    def __len__(cls) -> int:
        return len(trace.SpanKind)

    def __contains__(cls, value: object) -> bool:
        return value in trace.SpanKind

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, trace.SpanKind)


class SpanKind(metaclass=_Kinds):
    """The role of a span in a request between processes; each member is OpenTelemetry's own."""

    INTERNAL: Final = trace.SpanKind.INTERNAL
    SERVER: Final = trace.SpanKind.SERVER
    CLIENT: Final = trace.SpanKind.CLIENT
    PRODUCER: Final = trace.SpanKind.PRODUCER
    CONSUMER: Final = trace.SpanKind.CONSUMER
    Internal: Final = trace.SpanKind.INTERNAL
    Server: Final = trace.SpanKind.SERVER
    Client: Final = trace.SpanKind.CLIENT
    Producer: Final = trace.SpanKind.PRODUCER
    Consumer: Final = trace.SpanKind.CONSUMER


DEFAULT_MAX_LENGTH: Final = 1000
"""Characters of one text inside a captured input or output."""
MAX_ERROR_CHARS: Final = 8192
"""Characters of an exception's text that are recorded."""


class ScouterSpan(trace.Span):
    """Wraps a span of the OpenTelemetry SDK; whatever is not defined here is the SDK span's.

    As a context manager, sync or async, it becomes the current span, records an exception that
    leaves the block, and ends.

    Args:
        span: The wrapped span.
        queue: Queue that `add_queue_item` inserts into; the process' queue if not given.
        record_exception: Add an event for an exception that leaves the `with` block.
        set_status_on_exception: Set the status to error then.
        end_on_exit: End the span when the `with` block is left.
    """

    def __init__(
        self,
        span: trace.Span,
        queue: ScouterQueue | None = None,
        *,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
    ) -> None:
        self._span = span
        self._queue = queue
        self._record_exception = record_exception
        self._set_status_on_exception = set_status_on_exception
        self._end_on_exit = end_on_exit
        self._base: otel_context.Context | None = None
        self._tokens: list[Any] = []

    # --- what Scouter adds ---

    @property
    def wrapped(self) -> trace.Span:
        """The SDK span."""
        return self._span

    @property
    def trace_id(self) -> str:
        """32 lower-case hex digits."""
        return f"{self._span.get_span_context().trace_id:032x}"

    @property
    def span_id(self) -> str:
        """16 lower-case hex digits."""
        return f"{self._span.get_span_context().span_id:016x}"

    @property
    def context_id(self) -> str:
        """The span's id, in the original's word."""
        return self.span_id

    @property
    def parent_context_id(self) -> str | None:
        """The parent's span id, 16 lower-case hex digits; None for a root."""
        parent = getattr(self._span, "parent", None)
        return f"{parent.span_id:016x}" if isinstance(parent, SpanContext) else None

    def set_tag(self, key: str, value: object) -> None:
        """Attach a tag that traces can be found by."""
        for name, tag in attribute_values({key: value}).items():
            self._span.set_attribute(TAG_PREFIX + name, tag)

    def set_label(self, label: str) -> None:
        """Attach the span's label."""
        self.set_attribute(LABEL, label)

    def set_entity(self, entity_uid: str) -> None:
        """Mark the span as belonging to a profile, by its uid."""
        self.set_attribute(ENTITY_PREFIX + entity_uid, entity_uid)

    def set_input(self, input: object, max_length: int = DEFAULT_MAX_LENGTH) -> None:
        """Keep what the operation was given, as JSON.

        Args:
            input: Anything.
            max_length: Each text inside is cut to this number of characters.
        """
        self._set_json(INPUT, input, max_length)

    def set_output(self, output: object, max_length: int = DEFAULT_MAX_LENGTH) -> None:
        """Keep what the operation gave back, as JSON; arguments as for `set_input`."""
        self._set_json(OUTPUT, output, max_length)

    def _set_json(self, key: str, value: object, max_length: int) -> None:
        if not self._span.is_recording():
            return
        try:
            text, is_cut = json_text(value, max_length)
            self._span.set_attribute(key, text)
            if is_cut:
                self.note_cut(key)
        except Exception as error:  # noqa: BLE001 - a broken __repr__ must not stop the agent
            GUARD.refuse("span", "invalid", error)

    def note_cut(self, *parts: str) -> None:
        """Name parts of the span as cut, so that no task takes them for whole."""
        attributes: Mapping[str, object] = getattr(self._span, "attributes", None) or {}
        self._span.set_attribute(TRUNCATED, truncated_mark(attributes.get(TRUNCATED), parts))

    def add_queue_item(self, alias: str, item: EvalRecord) -> None:
        """Insert a record that belongs to this span's trace.

        A mistake in the set-up is raised where somebody is there to see it: in a replay, and under
        pytest or unittest. Elsewhere the agent goes on, the mistake is logged once, and the record
        is counted in `ScouterQueue.stats`, as every record that cannot be taken.

        Args:
            alias: The profile that judges it.
            item: The record; it gets this trace's id unless it has one already.

        Raises:
            UnknownProfileError: The queue has no such alias.
            ConfigError: There is no queue; pass `scouter_queue=` to `init_tracer`.
        """
        slot = self._slot(f"add_queue_item({alias!r})", lambda queue: queue[alias])
        if slot is not None:
            self._insert(slot, item)

    def attach_eval(
        self,
        profile_uid: str,
        context: object = None,
        *,
        record_id: str | None = None,
        session_id: str | None = None,
        tags: Mapping[str, str] | Iterable[str] | None = None,
    ) -> None:
        """Make a record that belongs to this span's trace, and insert it for a profile's uid.

        Args:
            profile_uid: The profile that judges it, `profile.uid`; the queue has to have it.
            context: Anything with a JSON form, usually a dict.
            record_id: The user's own name for the record.
            session_id: Conversation that the record belongs to.
            tags: Text pairs, as a mapping or as `key=value` texts.

        Raises:
            UnknownProfileError: The queue has no such profile; where and when as for
                `add_queue_item`.
            ConfigError: There is no queue; the same.
        """
        call = f"attach_eval({profile_uid!r})"
        slot = self._slot(call, lambda queue: queue.get_by_entity_uid(profile_uid))
        if slot is None:
            return
        try:
            record = EvalRecord(context, record_id, session_id, tags=tags)
        except DataError as error:
            slot.refuse(error)
        else:
            self._insert(slot, record)

    def _slot(self, call: str, find: Callable[[ScouterQueue], Queue]) -> Queue | None:
        """Find where a record goes; None after a mistake that must not stop the agent."""
        queue = self._queue or RUNTIME.queue
        try:
            if queue is not None:
                return find(queue)
            raise ConfigError(
                f"{call}: no queue; pass scouter_queue= to init_tracer(), to "
                "ScouterInstrumentor().instrument(), or call tracer.set_scouter_queue()"
            )
        except ConfigError as error:
            is_replay = RUNTIME.capture.is_enabled or (queue is not None and queue.is_capturing)
            if is_replay or is_test_run():
                raise
            if queue is None:
                GUARD.refuse(call, "no_queue", error)
            else:
                queue.refuse(call, "unknown_profile", error)
            return None

    def _insert(self, slot: Queue, record: EvalRecord) -> None:
        context = self._span.get_span_context()
        trace_id = f"{context.trace_id:032x}" if context.is_valid else None
        uid = slot.insert_for_trace(record, trace_id, is_sampled=context.trace_flags.sampled)
        if uid is not None:
            self._span.add_event(QUEUE_EVENT, {QUEUE_RECORD: uid, QUEUE_PROFILE: slot.alias})

    # --- OpenTelemetry's interface ---

    def get_span_context(self) -> SpanContext:
        """Ids and flags."""
        return self._span.get_span_context()

    def set_attribute(self, key: str, value: object) -> None:
        """Set an attribute; a value that OpenTelemetry cannot carry is set as JSON text."""
        self.set_attributes({key: value})

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set several attributes, each as `set_attribute` does."""
        if self._span.is_recording():
            for key, value in attribute_values(attributes).items():
                self._span.set_attribute(key, value)

    def add_event(
        self, name: str, attributes: types.Attributes = None, timestamp: int | None = None
    ) -> None:
        """Add an event; attribute values as in `set_attribute`."""
        if self._span.is_recording():
            self._span.add_event(name, attribute_values(attributes), timestamp)

    def add_link(self, context: SpanContext, attributes: types.Attributes = None) -> None:
        """Link to another span."""
        self._span.add_link(context, attribute_values(attributes))

    def update_name(self, name: str) -> None:
        """Rename the span."""
        self._span.update_name(name)

    def is_recording(self) -> bool:
        """True while what is set is recorded."""
        return self._span.is_recording()

    def set_status(self, status: Status | StatusCode | str, description: str | None = None) -> None:
        """Set the status; as text `OK`, `ERROR` or `UNSET`, in any case."""
        if isinstance(status, str):
            code = StatusCode.__members__.get(status.upper())
            if code is None:
                GUARD.refuse("span", "status", f"{status!r} is no status: OK, ERROR or UNSET")
                return
            status = code
        self._span.set_status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: types.Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Add an event for an exception; attribute values as in `set_attribute`."""
        if not self._span.is_recording():
            return
        carried = attribute_values(attributes)
        text = text_of(exception)
        if len(text) > MAX_ERROR_CHARS:
            stack = "".join(traceback.format_tb(exception.__traceback__))[-MAX_ERROR_CHARS:]
            short = {"exception.message": text[:MAX_ERROR_CHARS], "exception.stacktrace": stack}
            carried = {**short, **carried}
            self.note_cut(*(f"events.exception.{key}" for key in short))
        try:
            self._span.record_exception(exception, carried, timestamp, escaped)
        except Exception:  # noqa: BLE001 - OpenTelemetry calls the error's own `__str__`
            said = {
                "exception.type": type(exception).__qualname__,
                "exception.message": text,
                "exception.stacktrace": "".join(traceback.format_exception(exception)),
                "exception.escaped": str(escaped),
            }
            self._span.add_event("exception", {**said, **carried}, timestamp)

    def end(self, end_time: int | None = None) -> None:
        """End the span; nothing can be set afterwards."""
        self._span.end(end_time)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the SDK span has
        return getattr(self._span, name)

    # --- as a context manager ---

    def stay_open(self, is_open: bool = True) -> bool:
        """Do not end the span when the `with` block is left, or do; returns whether it would."""
        ends, self._end_on_exit = self._end_on_exit, not is_open
        return ends

    def with_base(self, base: otel_context.Context | None) -> "ScouterSpan":
        """Have `with` start from this context instead of the current one."""
        self._base = base
        return self

    def make_current(self) -> object:
        """Make this the current span; give the result to `opentelemetry.context.detach`."""
        return otel_context.attach(trace.set_span_in_context(self, self._base))

    def failed(self, error: BaseException) -> None:
        """Note an error that leaves the operation, as the flags of the constructor say."""
        if not isinstance(error, Exception) or not self._span.is_recording():
            return  # cancellation, exit and closing a generator are no failures
        if self._record_exception:
            self.record_exception(error)
        if self._set_status_on_exception:
            text = f"{type(error).__name__}: {text_of(error)[:MAX_ERROR_CHARS]}"
            self._span.set_status(Status(StatusCode.ERROR, text))

    def __enter__(self) -> "ScouterSpan":
        self._tokens.append(self.make_current())
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        try:
            if exc_val is not None:
                self.failed(exc_val)
        except Exception as error:  # noqa: BLE001 - the agent's own exception has to pass
            GUARD.refuse("span, exit", type(error).__name__, error)
        finally:
            if self._tokens:
                otel_context.detach(self._tokens.pop())
            if self._end_on_exit:
                self._span.end()

    async def __aenter__(self) -> "ScouterSpan":
        return self.__enter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.__exit__(exc_type, exc_val, exc_tb)
