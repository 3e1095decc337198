"""Results of offline runs that a collector keeps."""

import datetime

from scouter.client.models.answer import Answer


class RunItem(Answer):
    """Results of an offline run, kept in a collector."""

    run_id: str
    name: str
    added_at: datetime.datetime
    added_by: str = ""
    """Id of the token that brought it."""
    is_replay: bool = True
    """False of results of records without scenarios."""
    profiles: dict[str, str]
    """Digest of the profile by alias; empty where the results do not tell."""
    records: int
    pass_rate: float
    scenarios: int
    scenarios_passed: int
    agent: str = ""
    agent_version: str = ""
    ended_at: datetime.datetime | None = None


class RemovedRun(Answer):
    """A run that was taken out."""

    run_id: str
