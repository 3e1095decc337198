"""Groups of results that did not pass."""

import datetime

from pydantic import Field

from scouter.client.models.answer import Answer
from scouter.evaluate.outcome import Outcome


class FailureExample(Answer):
    """A result of a group."""

    evaluation_id: str
    uid: str = Field(description="Of the record; of a session, its made-up uid.")
    record_id: str
    trace_id: str | None


class FailureGroup(Answer):
    """Results that did not pass for the same reason, as far as one can see from outside."""

    outcome: Outcome = Field(description="`failed` or `errored`.")
    reason: str | None = Field(description="Of errored ones.")
    operator: str
    message: str = Field(description="Of the newest; those of the others differ in values only.")
    tools: tuple[str, ...] = Field(
        description="Tools that were called up to the first call that failed, or all; a repeated "
        "call counts once. Of a long way the last 12, after `…`."
    )
    failed_tool: bool = Field(description="The last of `tools` failed.")
    error_type: str = Field(description="Of the trace's first error; empty without any.")
    before: int = Field(description="Results looked at of the time before `split`.")
    since: int = Field(description="From `split` on; all, where there is none.")
    share_before: float | None = Field(
        description="Share of all results of that time, from 0 to 1; null without results or split."
    )
    share_since: float | None
    first_seen: datetime.datetime = Field(description="Of those looked at.")
    last_seen: datetime.datetime
    examples: tuple[FailureExample, ...] = Field(description="The newest, three at most.")


class Failures(Answer):
    """Groups, the one with the largest share since `split` first."""

    items: tuple[FailureGroup, ...]
    looked_at: int = Field(
        description="Results looked at: the newest that failed and the newest that errored, at "
        "most 200 each before `split` and since."
    )
    is_partial: bool = Field(description="There are more; the shares are estimates then.")
