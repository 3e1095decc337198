"""A record made of a trace, for agents that send spans and no records, and its session."""

import hashlib
from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.spans.gaps import cut_parts_of
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.attributes import TRUNCATED
from scouter.model.genai.facts import Field, Kind
from scouter.model.genai.lookup import USES
from scouter.model.genai.reader import naming_sessions, read_facts
from scouter.model.genai.tool_definitions import tool_definitions
from scouter.model.record import EvalRecord
from scouter.model.short_text import short_text
from scouter.model.span import Span


def trace_session(spans: Iterable[Span]) -> str:
    """Find the session of a trace: what its root names, else what is named first in time.

    Args:
        spans: Of one trace, in any order. Of several roots, the one that began first counts; of
            spans that began together, the one with the smaller id.

    Returns:
        The id of a conversation, or else of a session, of any convention, in the form in which
        records have theirs; empty if no span names one.

    Cost: linear in the spans; n log n in those that can name one.
    """
    named = (_session_of(span) for span in sorted(naming_sessions(tuple(spans)), key=_rank))
    return next((found for found in named if found), "")


def _rank(span: Span) -> tuple[bool, int, str]:
    return span.parent_span_id is not None, span.start_ns, span.span_id


def _session_of(span: Span) -> str:
    reported = read_facts(span)
    return short_text(reported.conversation or reported.session)


_OUTPUTS: Final = tuple(
    name
    for kind in (Kind.MODEL, Kind.AGENT)
    for name, uses in USES[kind].items()
    if any(use.field is Field.OUTPUT for use in uses)
)
"""Attributes, and beginnings of attributes, with what models and agents answered."""


def _is_cut(tree: SpanTree) -> bool:
    """Tell whether the answer was cut, by its end or by the mark of its span."""
    work = tree.agent_work
    if "content" in work.missing:
        return True
    return bool(tree.gaps.cut) and any(
        part.startswith(_OUTPUTS)
        for span in tree.spans
        if span.span_id == work.answer_span_id
        for part in cut_parts_of(span.attributes.get(TRUNCATED))
    )


_TAGS: Final = ("service.name", "service.version", "deployment.environment.name")


_DERIVED: Final = "derived:"


def derived_uid(trace_id: str, profile: str = "") -> str:
    """The uid of the record that is derived from a trace.

    Args:
        trace_id: 32 hex digits.
        profile: Of the profile that judges it, where several may judge one trace.

    Returns:
        `derived:` and 32 hex digits, the same every time.
    """
    text = f"scouter.derived\n{trace_id}\n{profile}"
    return _DERIVED + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def is_derived_uid(uid: str) -> bool:
    """Tell whether a uid has the form that is reserved for derived records."""
    rest = uid.removeprefix(_DERIVED)
    return rest != uid and len(rest) == 32 and set(rest) <= set("0123456789abcdef")


def derive_record(spans: Iterable[Span] | SpanTree, *, profile: str = "") -> EvalRecord:
    """Make the record that a trace tells of.

    Its context has up to three fields, read from the spans. `question` and `answer` are the
    agent's own (see `scouter.model.genai.dialogue`). `tool_definitions` are
    the definitions of the tools that its models were given. A field that the spans do not tell is
    absent, so that a task that reads it is errored and does not pass; so is an answer that was cut.

    Args:
        spans: Spans of one trace, in any order, with their log events attached or not. What a tree
            knows of them is not read again.
        profile: See `derived_uid`.

    Raises:
        DataError: There are no spans, or they are of several traces.

    Cost: linear in the spans and the size of their messages.
    """
    tree = spans if isinstance(spans, SpanTree) else SpanTree(spans)
    if len(tree.trace_ids) != 1:
        raise DataError(
            f"a record is derived from one trace; these spans are of {len(tree.trace_ids)}"
        )
    trace_id = tree.trace_ids[0]
    reported: dict[str, JsonValue] = {
        "question": tree.agent_work.question,
        "answer": None if _is_cut(tree) else tree.agent_work.content,
        "tool_definitions": tool_definitions(tree.spans) or None,
    }
    resource = tree.true_roots[0].resource.attributes
    return EvalRecord(
        {key: value for key, value in reported.items() if value is not None},
        session_id=trace_session(tree.spans) or None,
        trace_id=trace_id,
        tags={name: str(resource[name]) for name in _TAGS if resource.get(name)},
        uid=derived_uid(trace_id, profile),
        created_ns=tree.start_ns,
    )
