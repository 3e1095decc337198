"""The decision on a candidate version."""

from pydantic import Field

from scouter.client.models.answer import Answer


class CanaryVersion(Answer):
    """The results of one version since the canary began."""

    version: str
    conversations: int = Field(description="Begun; a record without a session is one by itself.")
    records: int
    pass_rate: float | None = Field(description="Mean of the complete conversations.")
    error_rate: float | None
    result_rate: float | None = Field(description="Share of records that no gate skipped.")


class Difference(Answer):
    """Candidate minus stable, with an interval that holds at all looks together."""

    lower: float
    upper: float


class Canary(Answer):
    """The decision on a candidate, and its grounds."""

    decision: str = Field(description="promote, hold or roll_back.")
    reason: str
    profile: str
    profile_version: str
    task: str = Field(description="Empty for the whole record.")
    stable: CanaryVersion
    candidate: CanaryVersion
    pass_rate: Difference
    decided_rate: Difference = Field(description="Of the shares without an error.")
    result_rate: Difference = Field(description="Of the shares of records with a result.")
    is_cut: bool = Field(description="Later results of a version are not read: never promoted.")
    margin: float
    alpha: float
    split_chance: float | None = Field(
        description="That traffic is split as planned, at most; null without a plan, or if cut."
    )
