"""Sampling that records and spans agree on, as it looks at the trace id only."""

from dataclasses import dataclass, field
from typing import Final

_MASK: Final = 2**64 - 1
_MAX_KNOWN: Final = 10_000
_SPREAD: Final = 0x9E3779B97F4A7C15
"""2**64 by the golden ratio: what it multiplies is spread evenly, each stretch of numbers too."""


class Decisions:
    """Sampling decisions on the latest traces, where the trace's id and the ratio do not tell them.

    It is mostly empty. It holds the decisions of callers in other processes, and those of a sampler
    of the user's choice. Several threads may use it.
    """

    def __init__(self) -> None:
        self._young: dict[int, bool] = {}
        self._old: dict[int, bool] = {}
        self.are_known = False
        """True once there was one."""

    def note(self, trace_id: int, is_sampled: bool) -> None:
        """Remember one; of twice `_MAX_KNOWN` the older half is forgotten."""
        if len(self._young) >= _MAX_KNOWN:
            self._young, self._old = {}, self._young
        self._young[trace_id] = is_sampled
        self.are_known = True

    def on(self, trace_id: str | None) -> bool | None:
        """Tell whether a trace is sampled; None if that is not known."""
        if trace_id is None or not self.are_known:
            return None
        number = int(trace_id, 16)
        found = self._young.get(number)
        return self._old.get(number) if found is None else found


@dataclass(slots=True, kw_only=True)
class Sampling:
    """Sampling state of one process; the tracers share it, so that a change reaches all at once."""

    ratio: float | None = None
    """Share of the traces; None: nobody set one."""
    thins_spans: bool = False
    """True beside an application's own sampler: Scouter leaves out sampled spans, too."""
    decisions: Decisions = field(default_factory=Decisions)
    """For records that come when their trace's spans are over."""

    def note(self, trace_id: int, is_sampled: bool) -> None:
        """Remember what was decided on a trace, if the ratio does not say the same."""
        ratio = self.ratio
        if is_sampled != (ratio is None or id_is_sampled(trace_id, ratio)):
            self.decisions.note(trace_id, is_sampled)


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
    number = _number(trace_id, uid)
    return number is None or id_is_sampled(number, ratio)


def record_is_in_share(trace_id: str | None, uid: str, share: float) -> bool:
    """Decide for a record of those that are sampled, whoever sampled them and by what ratio.

    The sampled ids are the low ones: compared as they are with a second bound, they would all be
    below it or none beyond it, and of half of a tenth a tenth would be left.

    Args:
        trace_id: All records of one trace are in or out.
        uid: Decides where there is no trace.
        share: Of the sampled ones, in [0, 1].

    Source: multiplicative hashing, Knuth, The Art of Computer Programming 3, section 6.4.
    """
    number = _number(trace_id, uid)
    return number is None or id_is_sampled((number & _MASK) * _SPREAD, share)


def _number(trace_id: str | None, uid: str) -> int | None:
    """Read the number that decides on a record from its trace's id, else from its own uid.

    Returns:
        A number whose last 64 bits are random. None if the user chose another form of uid; such a
        record is always sampled.
    """
    text = trace_id if trace_id is not None else uid.replace("-", "")
    try:
        number = int(text, 16)
    except ValueError:
        return None
    # The top two of a uuid's last 64 bits are its variant, not random.
    return number if trace_id is not None else number << 2
