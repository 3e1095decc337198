"""Series, results and slices that the drift detectors look at."""

import datetime

from pydantic import Field

from scouter.client.models.alerts import VersionTally
from scouter.client.models.answer import Answer
from scouter.evaluate.outcome import Outcome


class DriftSeries(Answer):
    """The standing of one task of an active profile, of the version that ran last."""

    profile: str = Field(description="Alias of the profile.")
    profile_version: str
    task: str = Field(description="Empty for the whole record.")
    kind: str
    service: str
    environment: str
    version: str
    units: int = Field(description="Conversations, and records without one.")
    records: int
    failed: int
    errored: int = Field(
        default=0, description="Results that erred beside `records`; other kinds than pass: 0."
    )
    version_before: VersionTally | None = Field(
        default=None,
        description="The version before, where there is one; other kinds than pass: null.",
    )
    rate: float = Field(description="Of the last 500 to 1,000 units.")
    lower: float
    upper: float
    evidence: float
    state: str = Field(
        default="",
        description="learning, never_passed (nothing can be worse), watched or fallen: looked "
        "at alone.",
    )
    stands: bool = Field(
        default=False,
        description="A fall is proven among all series of the space looked at together (e-BH).",
    )
    healthy: float | None
    healthy_lower: float | None
    against: str = Field(description="The reference, or the data that it waits for.")


class DriftSeriesList(Answer):
    """All of a space, by alias and task."""

    items: tuple[DriftSeries, ...]


class DriftOutcome(Answer):
    """The outcome of one task, or of a whole record."""

    task: str = Field(description="Empty for the whole record.")
    outcome: Outcome


class DriftNumber(Answer):
    """The score of a task, or the measure that it compared."""

    task: str
    number: float


class DriftResult(Answer):
    """The first final result of one record, or of one session that is judged as a whole."""

    seq: int
    """Its commit; with `ordinal`, its place in the order of completion."""
    ordinal: int
    profile_uid: str
    service: str
    environment: str
    version: str
    session_id: str
    """Empty where the result stands for itself."""
    at: datetime.datetime
    evaluation_id: str
    outcomes: tuple[DriftOutcome, ...]
    numbers: tuple[DriftNumber, ...] = ()


class DriftSlice(Answer):
    """Results that have a tag, a tool or a model in common, before a moment and since."""

    name: str
    passed_before: int
    failed_before: int
    passed: int
    failed: int


class DriftSlices(Answer):
    """All slices that have a result since the moment."""

    total: int = Field(description="Results since the moment that were looked at.")
    items: tuple[DriftSlice, ...]
