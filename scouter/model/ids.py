"""Identifiers: time-ordered uuids, and the rule for trace and span ids."""

import os
import re
import time
from typing import Final

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}")


def uuid7(now_ns: int | None = None) -> str:
    """Make a uuid that sorts by time.

    Args:
        now_ns: Time in nanoseconds since the epoch; now if not given.

    Returns:
        36 characters, lower-case hex with hyphens, version 7, variant 10.

    Source: RFC 9562, section 5.7; the 12 bits after the version hold the fraction of the
        millisecond (method 3 of section 6.2).
    """
    ns = time.time_ns() if now_ns is None else now_ns
    ms, rest_ns = divmod(ns, 1_000_000)
    fraction = rest_ns * 4096 // 1_000_000
    tail = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    text = f"{ms & 0xFFFF_FFFF_FFFF:012x}7{fraction:03x}{tail:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_trace_id(text: str) -> bool:
    """Tell whether the text is 32 lower-case hex digits, not all zero (W3C Trace Context)."""
    return _TRACE_ID.fullmatch(text) is not None and text.strip("0") != ""


def is_span_id(text: str) -> bool:
    """Tell whether the text is 16 lower-case hex digits, not all zero (W3C Trace Context)."""
    return _SPAN_ID.fullmatch(text) is not None and text.strip("0") != ""
