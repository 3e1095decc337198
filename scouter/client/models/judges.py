"""Answers of judges that a collector keeps, and their agreement on gold items."""

import datetime

from pydantic import Field

from scouter.client.models.answer import Answer


class JudgeAnswer(Answer):
    """Answer of a judge that a collector keeps."""

    response: str
    """Written as JSON."""
    model: str = ""


class KeptJudgeAnswer(Answer):
    """Reply to a judge answer that was sent in; `kept` is False if the collector keeps none."""

    kept: bool = Field(description="False where the collector's cache is off.")


class GoldAgreement(Answer):
    """Share of gold items that a judge decided as people did, with a 95 % interval."""

    items: int
    agreed: int
    rate: float | None
    lower: float
    upper: float


class GoldWindow(Answer):
    """Gold items that were held together against a calibration."""

    start: datetime.datetime
    end: datetime.datetime
    is_complete: bool
    """Its time is over; only then it is tested."""
    sensitivity: GoldAgreement
    """Agreement on items that people pass."""
    specificity: GoldAgreement
    """Agreement on items that people fail."""
    undecided: int
    has_drifted: bool | None = None
    """None where there is no calibration, or too little to test."""
    sensitivity_p: float | None = None
    specificity_p: float | None = None


class GoldJudge(Answer):
    """A judge task of an active profile, and how its judge decides gold items."""

    profile: str
    profile_version: str
    task_id: str
    provider: str
    model: str
    items: int
    per_day: float
    window: int
    windows: tuple[GoldWindow, ...]
    """By time; the last one mostly goes on."""


class GoldJudges(Answer):
    """All of them; none where the collector has no gold items."""

    items: tuple[GoldJudge, ...]
