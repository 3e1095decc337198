"""Attribute and baggage names that Scouter itself reads and writes."""

from collections.abc import Iterable
from typing import Final, cast

PROCESS_ID: Final = "scouter.process.id"
"""Resource attribute on the copy of a span that Scouter exports: one id per process, so that the
collector can tell whose spans it has."""

PROCESS_SPAN_COUNT: Final = "scouter.process.span_count"
"""Attribute on the exported copy of a local root: spans that its process started in this trace
since the previous local root of the same trace ended there (this one included)."""

SCENARIO_ID: Final = "scouter.eval.scenario_id"
"""Baggage entry and span attribute: the scenario of an offline replay that a span belongs to."""
SCENARIO_ATTEMPT: Final = "scouter.eval.attempt"
"""Baggage entry (text) and span attribute (integer): which repeat of the scenario, from 0."""
SCENARIO_TRY: Final = "scouter.eval.try"
"""Baggage entry and span attribute: a key of one try of one attempt; a retry has another one."""
SCENARIO_OUTSIDE: Final = "-"
"""Value in place of that key for hooks and simulated users, whose work is not the agent's."""
SCENARIO_ID_MAX_CHARS: Final = 512
"""Longest id of a scenario; baggage with a longer one, from another process, is left alone."""

RESOURCE_TAGS: Final = ("service.name", "service.version", "deployment.environment.name")
"""Tags that name the process of a record whose spans nobody looked at."""

CONVERSATION_ID: Final = "gen_ai.conversation.id"
"""Span attribute of the semantic conventions; in a replay each try is a conversation."""

ENTITY_PREFIX: Final = "scouter.entity."
"""Span attribute `scouter.entity.{profile uid}`: the profile that a span was made under."""

ACTIVE_ENTITY: Final = "scouter.active.entity_uid"
"""Baggage entry: the profile that is active in this context."""

INPUT: Final = "scouter.tracing.input"
OUTPUT: Final = "scouter.tracing.output"
LABEL: Final = "scouter.tracing.label"
TAG_PREFIX: Final = "scouter.tracing.tag."

QUEUE_EVENT: Final = "scouter.queue.event"
"""Name of the span event that marks the insertion of a record."""
QUEUE_RECORD: Final = "scouter.queue.record"
"""Attribute of that event: the record's uid."""
QUEUE_PROFILE: Final = "scouter.queue.profile"
"""Attribute of that event: the profile's alias."""

PART_CHARS: Final = 100
"""Characters of a part's name in `TRUNCATED`."""
TRUNCATED: Final = "scouter.truncated"
"""Span attribute, a list of texts: what of the span was cut or left out, by OTLP or a limit.

Keys of attributes; `name` and `status` stand for themselves, `events.{name}.{key}` for an
attribute of an event, `links.{key}` for one of a link; `attributes`, `events` and `links` where
there were too many. An event or link with a value that is nested too deeply may have the attribute
itself."""
MAX_ITEMS: Final = 1024
"""Attributes of one span, and its events and links with theirs, that the collector takes unless it
is set otherwise; our own tracers have as many of each."""

MOST_NAMED: Final = 50
"""Parts that the mark names."""
MORE: Final = "…"
"""Stands in the mark for further parts, and in a value for what was left out."""


def truncated_mark(earlier: object, cut: Iterable[str]) -> tuple[str, ...]:
    """Make the value of `TRUNCATED`.

    Args:
        earlier: The value so far; anything but a list counts as none.
        cut: Names of parts to add.
    """
    before = cast("Iterable[object]", earlier) if isinstance(earlier, list | tuple) else ()
    names = list(dict.fromkeys(str(name)[:PART_CHARS] for name in (*before, *cut)))
    return tuple(names) if len(names) <= MOST_NAMED else (*names[:MOST_NAMED], MORE)
