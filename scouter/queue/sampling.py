"""Sampling that records and spans agree on, as it looks at the trace id only."""

from dataclasses import dataclass
from typing import Final

_MASK: Final = 2**64 - 1


@dataclass(slots=True, kw_only=True)
class Sampling:
    """What the tracing of a process keeps; shared, so that a change reaches all at once."""

    ratio: float | None = None
    """Share of the traces; None: nobody asked for one."""
    thins_spans: bool = False
    """True beside an application's own sampler: Scouter leaves out sampled spans, too."""


def id_is_sampled(number: int, ratio: float) -> bool:
    """Decide by the low 64 bits of an id.

    Args:
        number: A trace id.
        ratio: Share to keep, in [0, 1].

    Source: the rule of OpenTelemetry Python's `TraceIdRatioBased`, so that spans sampled by it
        and records sampled here belong to the same traces.
    """
    return (number & _MASK) < round(ratio * 2**64)


def record_is_sampled(trace_id: str | None, uid: str, ratio: float) -> bool:
    """Decide for a record: by its trace, or by the random end of its uid where it has none."""
    text = trace_id if trace_id is not None else uid.replace("-", "")
    try:
        number = int(text, 16)
    except ValueError:
        return True  # a uid of the user's own making: keep the record
    if trace_id is None:
        number <<= 2  # the top two of a uuid's last 64 bits are its variant, not random
    return id_is_sampled(number, ratio)
