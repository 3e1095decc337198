"""A record made of a trace, for agents that send spans and no records."""

import hashlib
from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.spans.session import trace_session
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.genai.tool_definitions import tool_definitions
from scouter.model.record import EvalRecord
from scouter.model.span import Span

_TAGS: Final = ("service.name", "service.version", "deployment.environment.name")


def derived_uid(trace_id: str, profile: str = "") -> str:
    """The uid of the record that is derived from a trace.

    Args:
        trace_id: 32 hex digits.
        profile: Of the profile that judges it, where several may judge one trace.

    Returns:
        32 hex digits, the same every time.
    """
    text = f"scouter.derived\n{trace_id}\n{profile}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def derive_record(spans: Iterable[Span] | SpanTree, *, profile: str = "") -> EvalRecord:
    """Make the record that a trace tells of.

    Its context has up to three fields, read from the spans. `question` and `answer` are the
    agent's own (see `scouter.model.genai.dialogue`). `tool_definitions` are
    the definitions of the tools that its models were given. A field that the spans do not tell is
    absent, so that a task that reads it is errored and does not pass.

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
    told: dict[str, JsonValue] = {
        "question": tree.agent_work.question,
        "answer": tree.agent_work.content,
        "tool_definitions": tool_definitions(tree.spans) or None,
    }
    resource = tree.true_roots[0].resource.attributes
    return EvalRecord(
        {key: value for key, value in told.items() if value is not None},
        session_id=trace_session(tree.spans) or None,
        trace_id=trace_id,
        tags={name: str(resource[name]) for name in _TAGS if resource.get(name)},
        uid=derived_uid(trace_id, profile),
        created_ns=tree.start_ns,
    )
