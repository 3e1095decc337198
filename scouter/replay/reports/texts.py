"""Values, times and rates in the words that reports share."""

import json
import re
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.compare.gate_checks import GateCheck
from scouter.evaluate.intervals import Interval
from scouter.model.json_value import plain_text

_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot write (production 2, Char)."""

_NS: Final = 1_000_000_000


def clip(text: str, limit: int) -> str:
    """Cut a text and say how much is gone."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]} … ({len(text) - limit:,} more characters)"


def value_text(value: JsonValue, limit: int = 2_000) -> str:
    """Write a JSON value for people: a text as it is, all else as JSON, indented if long."""
    if isinstance(value, str):
        return clip(plain_text(value), limit)
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > 80:
        text = json.dumps(value, ensure_ascii=False, indent=2)
    return clip(plain_text(text), limit)


def quoted(value: JsonValue, limit: int = 2_000) -> str:
    """Write a JSON value as JSON, so that the text "1" and the number 1 look different."""
    return clip(plain_text(json.dumps(value, ensure_ascii=False)), limit)


def xml_text(text: str) -> str:
    """Leave out what XML cannot hold: control characters and half characters."""
    return _NOT_XML.sub("", text)


def duration(nanoseconds: int) -> str:
    """Write a duration with its unit: `340 µs`, `12.5 ms`, `3.2 s`, `4 min 05 s`."""
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1_000:.0f} µs"
    if nanoseconds < _NS:
        return f"{nanoseconds / 1_000_000:.3g} ms" if nanoseconds < 999_500_000 else "1 s"
    seconds = nanoseconds / _NS
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds < 59.95 else "60 s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def moment(nanoseconds: int) -> str:
    """Write a time as `2025-05-24 12:00:00 UTC`; empty for 0."""
    if not nanoseconds:
        return ""
    return datetime.fromtimestamp(nanoseconds // _NS, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def percent(rate: float | None) -> str:
    """Write a rate with one digit where it needs one: `75%`, `66.7%`; `–` for None."""
    if rate is None:
        return "–"
    text = f"{rate * 100:.1f}"
    return f"{text.removesuffix('.0')}%"


def gate_cells(gate: GateCheck) -> tuple[str, str]:
    """Write what a gate wanted and what it found, with the counts behind that."""
    wanted, found = (
        ("–" if each is None else f"{each:.4g}") if gate.is_mean else percent(each)
        for each in (gate.wanted, gate.found)
    )
    return wanted, f"{found} ({gate.counts_text})"


def points(difference: float | None) -> str:
    """Write a difference of rates in percentage points: `+12.5`, `−3`, `0`."""
    if difference is None:
        return ""
    text = f"{abs(difference) * 100:.1f}".removesuffix(".0")
    if text == "0":
        return "0"
    return f"{'+' if difference > 0 else '−'}{text}"


def interval(bounds: Interval | None) -> str:
    """Write the interval of a rate: `51% to 96%`."""
    return "" if bounds is None else f"{bounds[0]:.0%} to {bounds[1]:.0%}"


def counted(number: int, noun: str) -> str:
    """Write `1 scenario` or `2 scenarios`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
