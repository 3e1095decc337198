"""Spans as rows: what they are found by, and the bytes of a trace that came in one commit."""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from math import isfinite
from typing import Any, Final, NamedTuple
from zlib import crc32

import orjson

from collector.store.reads import LAST, Values
from scouter.evaluate.spans.costs import call_cost
from scouter.evaluate.spans.halves import named_beside
from scouter.model.attributes import PROCESS_ID
from scouter.model.genai.facts import MODEL_CALLS, NO_USAGE, Kind
from scouter.model.genai.names import arguments_text
from scouter.model.genai.reader import has_facts, read_facts
from scouter.model.genai.usage import finish_word
from scouter.model.json_value import plain_text, plain_texts, to_json_value
from scouter.model.log_event import is_log_event
from scouter.model.short_text import short_text
from scouter.model.span import Attributes, AttributeValue, Span

LONGEST: Final = 256
"""Characters of the longest key, and of the longest value, that has a place in the text."""
MOST: Final = 128
"""Attributes of a span that have a place."""
_NUMBERED: Final = re.compile(r"\.\d+(\.|$)")
"""In the name of an attribute that is an item of a list, as `llm.input_messages.0.message.role`."""

_SIZED: Final = (str, bytes, tuple, dict)


def attribute_text(attributes: Attributes, links: Collection[str] = ()) -> str:
    """Write the attributes of a span, but for long ones; U+FFFD replaces half a character.

    Of more than 128, which OpenTelemetry's SDKs do not send unless they are set to, those that
    are parts of messages are left out first. A number that JSON cannot say is null. Texts of a list
    stand before it, as if each were the value; who reads the JSON gets the last, the list.

    Args:
        attributes: Of the span.
        links: Ids of traces that it names elsewhere.

    Cost: 3 µs for ten attributes.
    """
    short: dict[str, AttributeValue] = {
        name: value
        for name, value in attributes.items()
        if len(name) <= LONGEST and not (isinstance(value, _SIZED) and len(value) > LONGEST)
    }
    if len(short) > MOST:
        names = sorted(short, key=lambda name: _NUMBERED.search(name) is not None)
        short = {name: short[name] for name in names[:MOST]}
    if links:
        short["span.links"] = tuple(sorted(links))
    try:
        text = orjson.dumps(short, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # bytes, or half a character
        plain = plain_texts(to_json_value(short))
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2)
    lists = ((name, value) for name, value in short.items() if isinstance(value, tuple))
    items = [
        f"{_head(plain_text(name))}{_json(plain_text(each))},"
        for name, value in lists
        for each in value
        if isinstance(each, str) and len(each) <= LONGEST
    ]
    return f"{{{''.join(items)}{text[1:]}" if items else text


def is_searched(key: str, value: str) -> bool:
    """Tell whether an attribute is found by its key and value: long ones are not."""
    return max(len(key), len(value)) <= LONGEST


def has_attribute(key: str, value: str, values: Values) -> str:
    """SQL that is true of texts with an attribute.

    Args:
        key: Name of the attribute; any one that has the value where it is empty.
        value: A text, one of a list, or what is written so: a number, a boolean, JSON.
        values: Gets the values of parameters.
    """
    forms = (f"position({values.of(form)} IN attributes) > 0" for form in _forms(key, value))
    return f"({' OR '.join(forms)})"


def names_attribute(key: str, values: Values) -> str:
    """SQL that is true of texts with an attribute of this name, whatever its value."""
    return f"position({values.of(_head(key))} IN attributes) > 0"


def traces_with(
    space: str,
    user_id: str | None,
    attributes: Iterable[tuple[str, str]],
    column: str,
    values: Values,
    commits: tuple[int, int] | None = None,
) -> Iterator[str]:
    """SQL that is true of traces of which some span has a user, and some span each attribute.

    Args:
        space: Theirs.
        user_id: None for any.
        attributes: Keys and values, as of `has_attribute`.
        column: SQL for the trace's id.
        values: Gets the values of parameters.
        commits: The first and the last one that have spans of them, if that is known.
    """
    each = [has_attribute(key, value, values) for key, value in attributes]
    if user_id is not None:
        each.append(f"user_id = {values.of(user_id)}")
    first, last = commits or (0, LAST)
    for sql in each:
        within = f"seq BETWEEN {values.of(first, 'BIGINT')} AND {values.of(last, 'BIGINT')}"
        yield (
            f"{column} IN (SELECT trace_id FROM spans WHERE space = {values.of(space)}"
            f" AND {within} AND {sql})"
        )


def _head(key: str) -> str:
    return f"\n  {_json(key)}: " if key else ": "


def _forms(key: str, value: str) -> Iterator[str]:
    """The ways in which an attribute may stand in a text; the end of a number tells it whole."""
    head = _head(key)
    yield head + _json(value)
    if value[:1] in ("[", "{"):
        with suppress(ValueError):
            yield attribute_text({key: json.loads(value)})[1:-2]
    if value in ("true", "false"):
        yield head + value
    for number in sorted(_numbers(value)):
        yield from (f"{head}{number}{end}" for end in ",\n")


def _numbers(text: str) -> set[str]:
    """The JSON of the numbers whose written form a text may be."""
    found: set[str] = set()
    try:
        whole = int(text)
    except ValueError:
        pass
    else:
        if str(whole) == text and -(2**63) <= whole < 2**63:
            found.add(text)
    try:
        number = float(text)
    except ValueError:
        return found
    if not isfinite(number):
        return found
    return found | {_json(each) for each in ((number, -number) if not number else (number,))}


def _json(value: str | float) -> str:
    return orjson.dumps(value).decode()


_OPERATION: Final = "gen_ai.operation.name"
_OPERATIONS: Final = {
    Kind.MODEL: "chat", Kind.EMBEDDING: "embeddings", Kind.TOOL: "execute_tool",
    Kind.AGENT: "invoke_agent", Kind.WORKFLOW: "invoke_workflow", Kind.RETRIEVAL: "retrieval",
    Kind.GUARDRAIL: "run_guardrail",
}  # fmt: skip
"""OpenTelemetry's word for each kind."""
_MAX_TOKENS: Final = 2**32 - 1
_NO_FACTS: Final = (*(None,) * 10, Kind.OTHER.value, *(None,) * 6)
_NOT_CALLED: Final = ((), *(None,) * 5)


class SpanKey(NamedTuple):
    """The rank of a span among those with its ids: of two the larger one is the better."""

    end_ns: int
    size_bytes: int
    """Of the span's own OTLP message."""
    checksum: int
    """CRC-32 over its resource, scope and own message."""


class SpanRow(NamedTuple):
    """A span by what it is found by: the columns of `spans`, but for the commit's number."""

    space: str
    received_ns: int
    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status: int
    service_name: str
    service_version: str
    environment: str
    process: str | None
    """The process that had it in hand, if that is one of ours."""
    is_event: int
    """1 for a log event, which is below the span that it belongs to."""
    size_bytes: int
    checksum: int
    operation: str | None
    provider: str | None
    request_model: str | None
    response_model: str | None
    agent_name: str | None
    tool_name: str | None
    conversation_id: str | None
    error_type: str | None
    session_id: str | None
    finish_reason: str | None
    genai_kind: str
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    act_hash: int | None
    arguments_hash: int | None
    scope_hash: int
    attributes: str
    """Its short attributes, as of `attribute_text`."""
    setup: tuple[str, ...]
    """What a call ran with, as of `SpanFacts.setup`."""
    cache_written_tokens: int | None
    cost_usd: float | None
    """Of a model's call, as of `call_cost`."""
    user_id: str | None
    audio_input_tokens: int | None
    audio_output_tokens: int | None

    @property
    def key(self) -> SpanKey:
        """Its rank among spans with the same ids."""
        return SpanKey(self.end_ns, self.size_bytes, self.checksum)


class BodyRow(NamedTuple):
    """The spans of one trace that came in one commit."""

    space: str
    trace_id: str
    spans: int
    """Number of them."""
    body: bytes
    """An OTLP `TracesData` of them alone; the store compresses it."""


class TracePlace(NamedTuple):
    """A trace and the commits that have its spans: no others need be read."""

    trace_id: str
    first_seq: int = 0
    last_seq: int = LAST


def span_row(
    span: Span, *, space: str, received_ns: int, size_bytes: int, checksum: int
) -> SpanRow:
    """Make the row of a span.

    Args:
        span: The span, or a log event that became one.
        space: Its space.
        received_ns: Time of arrival.
        size_bytes: Of its OTLP message.
        checksum: That of its `SpanKey`.

    Cost: about 25 µs for a span with ten attributes, 10 more for a model's call.
    """
    resource = span.resource
    process = resource.attributes.get(PROCESS_ID)
    is_event = is_log_event(span)
    facts, last = (_event_facts(span), _NOT_CALLED) if is_event else _facts(span)
    return SpanRow._make(
        (
            space, received_ns, span.trace_id, span.span_id, span.parent_span_id, span.name,
            int(span.kind), span.start_ns, span.end_ns, int(span.status),
            resource.service_name, resource.service_version, resource.environment,
            process if isinstance(process, str) and process else None,
            int(is_event), size_bytes, checksum,
            *facts, crc32(span.scope.name.encode()),
            attribute_text(span.attributes, named_beside(span, LONGEST)), *last,
        )
    )  # fmt: skip


def _facts(span: Span) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The columns from `operation` to `arguments_hash`, and those from `setup` on."""
    if not has_facts(span):
        return _NO_FACTS, _NOT_CALLED
    facts = read_facts(span)
    kind = facts.kind
    is_tool, is_call = kind is Kind.TOOL, kind in MODEL_CALLS
    operation = span.attributes.get(_OPERATION)
    usage = facts.usage if is_call else NO_USAGE
    reasons = facts.finish_reasons if kind is Kind.MODEL else ()
    act = facts.call_id if is_tool else facts.response_id if is_call else ""
    arguments = facts.arguments
    columns = (
        str(operation) if operation else _OPERATIONS.get(kind),
        facts.provider or None,
        facts.request_model or None,
        facts.response_model or None,
        facts.agent or None,
        None if facts.is_merged else facts.tool or None,
        # As records have theirs, so that they are found by it.
        short_text(facts.conversation) if facts.conversation else None,
        facts.error_type or None,
        short_text(facts.session) if facts.session else None,
        finish_word(reasons[0]) if reasons else None,
        kind.value,
        _count(usage.input),
        _count(usage.output),
        _count(usage.cached),
        _count(usage.reasoning),
        crc32(act.encode()) if act else None,
        None if arguments is None else crc32(arguments_text(arguments)),
    )
    cost = call_cost(facts, [span]) if is_call else None
    user = short_text(facts.user) if facts.user else None
    last = (
        tuple(map(plain_text, facts.setup)), _count(usage.cache_written), cost, user,
        _count(usage.audio_input), _count(usage.audio_output),
    )  # fmt: skip
    return columns, last


def _event_facts(span: Span) -> tuple[Any, ...]:
    """The same for a log event: the session that it is erased by; all else is its span's."""
    session = span.attributes.get("session.id")
    session_id = None if session is None else short_text(str(session))
    return (*_NO_FACTS[:8], session_id, *_NO_FACTS[9:])


def _count(number: int | None) -> int | None:
    """A number of tokens; None if nobody can have counted so many."""
    return number if number is not None and 0 <= number <= _MAX_TOKENS else None
