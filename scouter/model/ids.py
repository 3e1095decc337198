"""Identifiers: time-ordered uuids, the rule for trace and span ids, and where they are."""

import os
import random
import re
import time
from typing import Any, Final

from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanContext, TraceFlags

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}")


_RANDOM: Final[dict[int, random.Random]] = {}
"""Generators of random numbers by process id, so that a forked child starts anew.

They are not the shared generator, which hosts can seed.
"""


def uuid7(now_ns: int | None = None) -> str:
    """Make a uuid that sorts by time.

    Args:
        now_ns: Time in nanoseconds since the epoch; now if not given.

    Returns:
        36 characters, lower-case hex with hyphens, version 7, variant 10.

    Source: RFC 9562, section 5.7; the 12 bits after the version hold the fraction of the
        millisecond (method 3 of section 6.2).
    """
    ms, rest_ns = divmod(time.time_ns() if now_ns is None else now_ns, 1_000_000)
    pid = os.getpid()
    # `setdefault` is one step of the interpreter: threads that come at once get the same.
    source = _RANDOM.get(pid) or _RANDOM.setdefault(pid, random.Random())  # noqa: S311 - no secret
    tail = source.getrandbits(62)
    return "%08x-%04x-7%03x-%04x-%012x" % (  # noqa: UP031 - twice as fast as five slices
        ms >> 16 & 0xFFFF_FFFF,
        ms & 0xFFFF,
        rest_ns * 4096 // 1_000_000,
        tail >> 48 | 0x8000,
        tail & 0xFFFF_FFFF_FFFF,
    )


def is_trace_id(text: str) -> bool:
    """Tell whether the text is 32 lower-case hex digits, not all zero (W3C Trace Context)."""
    return _TRACE_ID.fullmatch(text) is not None and text.strip("0") != ""


def is_span_id(text: str) -> bool:
    """Tell whether the text is 16 lower-case hex digits, not all zero (W3C Trace Context)."""
    return _SPAN_ID.fullmatch(text) is not None and text.strip("0") != ""


TRACE_ID: Final = 0
IS_REMOTE: Final = 2
FLAGS: Final = 3
IS_VALID: Final = 5

SAMPLED: Final = int(TraceFlags.SAMPLED)
"""The flag of a trace that is sampled."""


def as_tuple(context: Any) -> SpanContext:  # noqa: ANN401 - whatever a library takes for one
    """Make OpenTelemetry's own of a span context that only has its names."""
    try:
        flags = TraceFlags(context.trace_flags)
        return SpanContext(context.trace_id, context.span_id, context.is_remote, flags)
    except (AttributeError, TypeError, ValueError):
        return INVALID_SPAN_CONTEXT
