"""Two sides compared, and offline runs that a collector stores."""

import datetime

from pydantic import Field, JsonValue

from scouter.client.models.answer import Answer, Costed, Time
from scouter.client.models.records import ToolCall
from scouter.evaluate.outcome import Outcome


class VersionItem(Answer):
    """A version of the service behind a profile's records."""

    version: str
    first_at: Time = Field(
        description="When the first of its records was evaluated; where five versions or more "
        "began later, the beginning of that hour."
    )
    last_at: Time = Field(description="Likewise of the last one, or the end of that hour.")
    records: int = Field(description="In each hour results of the task that has the most.")


class SetupItem(Answer):
    """A value that records ran with."""

    kind: str = Field(
        description="prompt (name and version), prompt_digest, tools_digest, response_model, "
        "fingerprint, or version (name and version of a service)."
    )
    name: str
    first_at: Time = Field(description="When the first result with it was evaluated.")
    records: int = Field(description="With it, of those that were looked at.")
    share: float = Field(description="Of the results from then on whose spans tell this kind.")
    is_new: bool = Field(description="In none of 20 results or more before it.")


class Setups(Answer):
    """What the records of a time ran with, in the order in which each value came."""

    items: tuple[SetupItem, ...]
    looked_at: int = Field(
        description="Results that were looked at: 1,000 at most, evenly over their time."
    )


class Versions(Answer):
    """Versions, the one that began last first."""

    items: tuple[VersionItem, ...]


class TraceFigures(Costed):
    """Length, tokens and mean cost of the traces behind a side's newest records."""

    traces: int
    median_ms: float = Field(description="From the first span's start to the last one's end.")
    p95_ms: float
    input_tokens: float | None = Field(
        description="A trace's mean; null where no model call reports its tokens."
    )
    output_tokens: float | None


class ComparedSide(Answer):
    """One side of a comparison."""

    label: str = Field(description="For people.")
    records: int
    scenarios: int | None = Field(description="Of a run with scenarios.")
    is_cut: bool = Field(description="There are more records, which are older.")
    is_open: bool = Field(
        description="Still taking traffic: a live side without an end whose newest record is less "
        "than a day old."
    )
    run_id: str | None
    figures: TraceFigures | None = Field(
        description="Of a live side's newest 100 records; null without spans."
    )


class ComparedRate(Answer):
    """One rate on both sides, and what the test says of it."""

    label: str = Field(description="For people.")
    profile: str | None
    task_id: str | None = Field(description="Null for whole records and sums.")
    before_passed: int
    before_count: int
    after_passed: int
    after_count: int
    before_rate: float
    after_rate: float
    difference: float = Field(description="After minus before.")
    lower: float | None = Field(
        description="Of the difference, 95 %; null where too few conversations stand behind it. "
        "Of a side that still takes traffic at all looks together."
    )
    upper: float | None
    fell: int = Field(description="Pairs that passed before and do not now.")
    rose: int
    p_value: float | None = Field(description="One-sided, of a fall.")
    adjusted_p: float | None = Field(description="The same corrected for all rates (Holm).")
    word: str = Field(description="regressed, not cleared, or empty.")
    reason: str = Field(description="The row in words.")


class LookedTask(Answer):
    """Result of a task on one side of a change."""

    task_id: str
    outcome: Outcome
    message: str


class ComparedRecord(Answer):
    """A record on one side of a change."""

    uid: str = Field(description="Of a live record; else empty.")
    trace_id: str | None = Field(description="Of a live record.")
    session_id: str
    created_at: datetime.datetime | None = Field(
        description="When the record was made; null of a scenario."
    )


class Look(ComparedRecord):
    """A record, or an attempt of a scenario, on one side of a comparison."""

    outcome: Outcome
    tasks: tuple[LookedTask, ...]
    calls: tuple[ToolCall, ...] | None = Field(
        description="Of tools, in their order; null where no span is stored."
    )
    shown: dict[str, JsonValue] = Field(
        description="Of a scenario `asked`, `answered`, `turns` and `error`; of a live record "
        "`context`; large values are cut."
    )


class AlikeChange(Answer):
    """One more record that changed as another one did."""

    name: str
    before: ComparedRecord
    after: ComparedRecord


class ComparedChange(Answer):
    """A record or scenario that passed on one side only."""

    name: str
    is_worse: bool
    before: Look
    after: Look
    alike: tuple[AlikeChange, ...] = Field(
        description="Live records, 20 at most, of which the same tasks ended otherwise and the "
        "same tools were called."
    )
    more_alike: int = Field(description="Such records that are left out.")


class ComparedPart(Answer):
    """One part of the difference of the rates of records."""

    name: str = Field(
        description="traffic: other tags or questions, or other shares of them; route: other "
        "tools, models or lengths of conversations within the same traffic; behaviour: a change "
        "within the same traffic that took the same way."
    )
    difference: float = Field(description="After minus before; the parts add up to the whole.")
    lower: float = Field(description="95 %, as that of a rate.")
    upper: float
    fell: bool = Field(description="The whole interval is below 0.")


class ComparedTrait(Answer):
    """A tag, tool, model or length, and its records inside the same traffic."""

    name: str
    before_passed: int
    before_count: int
    after_passed: int
    after_count: int
    within: float = Field(description="Change of their rate inside the same traffic.")
    lower: float = Field(description="Of that, 95 %.")
    upper: float
    adjusted_p: float = Field(
        description="One-sided, of a fall beyond that of other records of the same traffic, "
        "corrected for all traits (Holm)."
    )
    is_named: bool = Field(description="adjusted_p is at most 0.05.")


class ComparedSetup(Answer):
    """A value that the records of one side ran with more often."""

    name: str = Field(description="Kind and value, such as `prompt travel 3`.")
    before: float = Field(description="Share of the records.")
    after: float


class Explanation(Answer):
    """Traffic or behaviour: what the difference of the rates of records comes from."""

    sentence: str = Field(description="In words.")
    parts: tuple[ComparedPart, ...]
    alone_before: float = Field(description="Share of records of traffic that only came before.")
    alone_after: float = Field(description="Share of records of traffic that only comes now.")
    traits: tuple[ComparedTrait, ...] = Field(
        description="20 at most: the named ones first, then those that make the most of a fall."
    )
    setup: tuple[ComparedSetup, ...] = Field(
        description="Values of prompt, tools, answering model, fingerprint and version whose "
        "shares differ by 10 points or more; 20 at most, the largest differences first."
    )


class Comparison(Answer):
    """Two sides compared."""

    word: str = Field(description="regressed, no regression seen, or inconclusive.")
    headline: str = Field(description="The decision in words.")
    reasons: tuple[str, ...]
    advice: tuple[str, ...] = Field(description="What to do about them.")
    exit_code: int = Field(description="0 go, 1 stop, 3 inconclusive; as `scouter compare`.")
    ruled_out: float | None = Field(description="A fall of more points than this is ruled out.")
    pairing: str = Field(
        description="scenarios; ids: records with an id of both sides in pairs; apart: two samples."
    )
    before: ComparedSide
    after: ComparedSide
    is_every_look: bool = Field(
        description="A side still takes traffic: intervals and p-values hold at all looks together."
    )
    state: str = Field(description="The same in words; empty of two runs.")
    explanation: Explanation | None = Field(
        description="Of two samples; null where they have too few conversations or no traffic in "
        "common."
    )
    rates: tuple[ComparedRate, ...]
    changes: tuple[ComparedChange, ...] = Field(
        description="At most 20, those that got worse first, then those with the most alike; none"
        " of two samples."
    )
    more_changes: int = Field(description="Changes that are left out.")
    notes: tuple[str, ...]


class RunItem(Answer):
    """A stored run."""

    run_id: str = Field(description="Digest of its file: the same file is one run.")
    name: str
    added_at: Time
    added_by: str = Field(description="Id of the token; empty where none was required.")
    is_replay: bool = Field(description="False of results of records without scenarios.")
    profiles: dict[str, str] = Field(description="Digest of the profile by alias.")
    records: int
    pass_rate: float = Field(description="Of all task results.")
    scenarios: int
    scenarios_passed: int
    agent: str
    agent_version: str
    ended_at: Time | None = Field(description="When the run ended, where its file says so.")


class RemovedRun(Answer):
    """A run that was taken out."""

    run_id: str
