"""Records and spans that a replay captured, or should have, and that are in no result."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict


class Loss(StrEnum):
    """Reasons why a record or a span is in no result."""

    UNKNOWN_ORIGIN = "unknown_origin"
    TOO_LATE = "too_late"
    INVALID = "invalid"
    CAPTURE_FULL = "capture_full"
    UNKNOWN_PROFILE = "unknown_profile"
    OTHER_PROCESS = "other_process"
    INTERNAL = "internal"
    SPANS_FULL = "spans_full"
    SPAN_FAULT = "span_internal"
    OPEN_SPAN = "span_open"
    OTHER_PROCESS_SPAN = "span_other_process"
    UNREADABLE = "unreadable"


_TOLD: Final[dict[Loss, tuple[Literal["record", "span"], str, str]]] = {
    Loss.UNKNOWN_ORIGIN: (
        "record",
        "of unknown origin",
        "nobody can tell which scenario made them: threads and pools do not know it by themselves. "
        "Hand work to them with contextvars.copy_context().run, wait for it before you answer, or "
        "run one scenario at a time (concurrency 1)",
    ),
    Loss.TOO_LATE: (
        "record",
        "that came when all had been judged",
        "wait for threads and tasks before you answer",
    ),
    Loss.INVALID: (
        "record",
        "that could not be taken",
        "they are no EvalRecord, or their context has no JSON form; the log names the place",
    ),
    Loss.CAPTURE_FULL: (
        "record",
        "beyond what a replay keeps at a time",
        "insert fewer records in one scenario, or run fewer scenarios at once",
    ),
    Loss.UNKNOWN_PROFILE: (
        "record",
        "for a profile that there is not",
        "write the alias or uid as the profile has it, or give that profile, too",
    ),
    Loss.OTHER_PROCESS: (
        "record",
        "made in a forked process",
        "a replay sees its own process: hand the values back, and insert the record here",
    ),
    Loss.INTERNAL: (
        "record",
        "that met an error in this package",
        "the log has its traceback; please report it",
    ),
    Loss.SPANS_FULL: (
        "span",
        "beyond what a replay keeps at a time",
        "run fewer scenarios at once, or make fewer spans in one",
    ),
    Loss.SPAN_FAULT: (
        "span",
        "that met an error in this package",
        "the log has its traceback; please report it",
    ),
    Loss.OPEN_SPAN: (
        "span",
        "that had not ended when its scenario was judged",
        "end every span before you answer",
    ),
    Loss.OTHER_PROCESS_SPAN: (
        "span",
        "made in a forked process",
        "a replay sees its own process: make the spans here, around the call",
    ),
    Loss.UNREADABLE: (
        "span",
        "or more in places of the files that could not be read",
        "mend the files; each place was named",
    ),
}


class Lost(BaseModel):
    """Number of records or spans that are in no result, for one reason."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    reason: Loss
    count: int

    @property
    def kind(self) -> Literal["record", "span"]:
        """Kind of the lost items: `record` or `span`."""
        return _TOLD[self.reason][0]

    @property
    def remedy(self) -> str:
        """Advice on how to lose no more of them."""
        return _TOLD[self.reason][2]

    @property
    def summary(self) -> str:
        """The count and the reason in words."""
        kind, why, _ = _TOLD[self.reason]
        noun = kind if self.count == 1 else f"{kind}s"
        return f"{self.count:,} {noun} {why}"

    @property
    def text(self) -> str:
        """The count, the reason and the remedy in words."""
        return f"{self.summary}: {self.remedy}"


def lost_of(counts: Mapping[Loss, int]) -> tuple[Lost, ...]:
    """Say what was lost, in the order of the reasons."""
    return tuple(Lost(reason=reason, count=counts[reason]) for reason in Loss if counts.get(reason))
