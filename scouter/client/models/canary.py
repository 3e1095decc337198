"""The decision on a candidate version."""

from scouter.client.models.answer import Answer


class CanaryVersion(Answer):
    """The results of one version since the canary began."""

    version: str
    conversations: int
    """Begun; a record without a session is one by itself."""
    records: int
    pass_rate: float | None
    """Mean of the complete conversations."""
    error_rate: float | None
    result_rate: float | None
    """Share of records that no gate skipped."""


class Difference(Answer):
    """Candidate minus stable, with an interval that holds at all looks together."""

    lower: float
    upper: float


class Canary(Answer):
    """The decision on a candidate, and its grounds."""

    decision: str
    """`promote`, `hold` or `roll_back`."""
    reason: str
    profile: str
    profile_version: str
    task: str
    """Empty for the whole record."""
    stable: CanaryVersion
    candidate: CanaryVersion
    pass_rate: Difference
    decided_rate: Difference
    """Difference of the shares without an error."""
    result_rate: Difference
    """Difference of the shares of records with a result."""
    is_cut: bool
    """Later results of a version are not read: nothing is promoted."""
    margin: float
    alpha: float
    split_chance: float | None
    """That traffic is split as planned, at most; None without a plan, or where results are cut."""
