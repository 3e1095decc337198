"""The session that a trace belongs to, as its spans name it."""

from collections.abc import Iterable

from scouter.model.genai.reader import naming_sessions, read_facts
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
    told = read_facts(span)
    return short_text(told.conversation or told.session)
