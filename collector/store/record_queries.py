"""Questions that list records and sessions, and the pages that answer them."""

from dataclasses import dataclass

from collector.prices import ModelTokens
from collector.store.letters import StoredLetter
from collector.store.reads import OutcomeFilter
from collector.store.rows import EvaluationRow, RecordRow, RecordState
from scouter.client.models.answer import TextMatch
from scouter.evaluate.outcome import Outcome
from scouter.model.span import struct


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuery:
    """Filter of the accepted records to list; None means any."""

    space: str
    profile: str | None = None
    """Alias, name, uid or digest."""
    record_id: str | None = None
    """Or its uid."""
    session_id: str | None = None
    """Or the uid of a record without one, which is a session of its own."""
    trace_id: str | None = None
    user_id: str | None = None
    """That a span of its trace names."""
    attributes: tuple[tuple[str, str], ...] = ()
    """Each of some span of its trace, as of `SpanQuery.attributes`."""
    state: RecordState | None = None
    since_ns: int | None = None
    """Received from then on."""
    until_ns: int | None = None
    as_of: int | None = None
    """Only what was accepted up to this commit, in the states of then."""
    limit: int = 100
    before: tuple[int, int] | None = None
    """Continue below this position: (commit, hash of the uid)."""
    context_bytes: int | None = None
    """With their contexts; the page ends early where these are about so long. For exports."""


@struct
class RecordSummary:
    """An accepted record and its state; the context is no part of `record`."""

    place: tuple[int, int]
    """Commit and hash of the uid: the order of listings."""
    record: RecordRow
    context_bytes: int
    """Size of the context as JSON."""
    state: RecordState
    outcome: Outcome | None
    """Outcome of the latest evaluation; None without an evaluation."""
    context: str | None = None
    """As JSON, where it was requested."""
    match: TextMatch | None = None
    """In the context, where a text was searched."""
    more_matches: tuple[TextMatch, ...] = ()
    """Likewise of further texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """Records, newest first, and where the next page begins, or a search goes on."""

    items: tuple[RecordSummary, ...]
    next_before: tuple[int, int] | None
    looked_until_ns: int | None = None
    """Arrival of the last record that was looked at, if a search ended before the page was full and
    before the last record; else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHistory:
    """A record and everything that was decided about it."""

    record: RecordRow
    state: RecordState
    evaluations: tuple[EvaluationRow, ...]
    """Every revision, newest first."""
    letter: StoredLetter | None
    """The dead letter, if the record is dead-lettered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Filter of the sessions to list; None means any.

    Profile and times ask for a record; all others ask something of the whole session.
    """

    space: str
    profile: str | None = None
    """Alias, name, uid or digest."""
    since_ns: int | None = None
    """Received from then on."""
    until_ns: int | None = None
    outcome: OutcomeFilter | None = None
    """Failed, errored or pending: of one latest evaluation, on a record or on the session itself.
    A record without an evaluation is pending. Passed: of all of them, skipped ones aside. Skipped:
    of all of them."""
    task_id: str | None = None
    """A latest evaluation has such a task; with `task_outcome`, with that outcome of it."""
    task_outcome: OutcomeFilter | None = None
    tags: tuple[tuple[str, str], ...] = ()
    """Keys and values that are all among the tags of one record."""
    tool_name: str | None = None
    """Of a span of the session's traces."""
    response_model: str | None = None
    """Likewise."""
    user_id: str | None = None
    """Likewise."""
    attributes: tuple[tuple[str, str], ...] = ()
    """Each of some span of these traces, as of `SpanQuery.attributes`."""
    min_duration_ns: int | None = None
    """From the start of the first span of the session's traces to the end of the last."""
    min_tokens: int | None = None
    """Of all model calls of these traces: input and output together."""
    as_of: int | None = None
    """In the order that records up to this commit give, so that pages read over a long time hold
    each session once."""
    limit: int = 100
    before: tuple[int, int] | None = None
    """Continue with those whose last such record is below this place."""

    @property
    def asks_of_sessions(self) -> bool:
        """True if a condition is about whole sessions."""
        filters = (
            self.outcome, self.task_id, self.task_outcome, self.tool_name, self.response_model,
            self.user_id, self.min_duration_ns, self.min_tokens,
        )  # fmt: skip
        return bool(self.tags or self.attributes) or any(each is not None for each in filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """The records of a session, counted."""

    session_id: str
    records: int
    traces: int
    first_ns: int
    """Time at which its first record was made."""
    last_ns: int
    passed: int
    failed: int
    errored: int
    skipped: int
    undecided: int
    """Records without an evaluation: waiting, pending or dead-lettered."""
    duration_ns: int | None = None
    """From the start of the first span of its traces to the end of the last; None without spans."""
    input_tokens: int | None = None
    """Input tokens of the model calls of its traces; None if no call tells them."""
    output_tokens: int | None = None
    models: tuple[ModelTokens, ...] = ()
    """The calls of models of its traces."""
    match: TextMatch | None = None
    """In a record or a span, where a text was searched."""
    more_matches: tuple[TextMatch, ...] = ()
    """Likewise of further texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """Sessions, the one with the newest record first."""

    items: tuple[SessionSummary, ...]
    next_before: tuple[int, int] | None
    as_of: int
    """Last commit that the listing includes; the query for the next page needs it."""
    looked_until_ns: int | None = None
    """Arrival of the last record that was looked at, if the search ended before the page was full
    and before the last record; else None."""
