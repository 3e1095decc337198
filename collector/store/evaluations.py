"""Evaluations: reads of people."""

from dataclasses import dataclass
from typing import Final

from collector.store.commit import tag_texts
from collector.store.evaluation_codec import decode_evaluation
from collector.store.reads import Reads
from collector.store.rows import EvaluationRow, ResultPlace

_ONE: Final = "SELECT body FROM evaluations WHERE space = $1 AND evaluation_id = $2"

_LATEST: Final = """
    NOT EXISTS (
        SELECT 1 FROM evaluations n
        WHERE n.space = e.space AND n.record_uid = e.record_uid AND n.revision > e.revision
          AND n.seq <= $1)
"""
"""SQL for the latest revision, as of commit `$1`."""

# All SQL is put together from this module's own words; values travel as parameters.
# ruff: noqa: S608
_LIST: Final = f"""
    SELECT e.seq, e.ordinal, e.body FROM evaluations e
    WHERE e.seq <= $1 AND e.space = $2
      AND ($3::TEXT IS NULL OR $3::TEXT IN (e.alias, e.profile_name, e.profile_uid,
            e.profile_digest))
      AND ($4::TEXT IS NULL OR $4::TEXT IN (e.record_id, e.record_uid))
      AND ($5::TEXT IS NULL OR $5::TEXT IN (e.session_id, e.record_uid))
      AND ($6::TEXT IS NULL OR e.trace_id = $6::TEXT)
      AND ($7::TEXT[] IS NULL OR e.outcome = ANY($7::TEXT[]))
      AND ($8::TEXT IS NULL OR e.service_name = $8::TEXT)
      AND ($9::TEXT IS NULL OR e.service_version = $9::TEXT)
      AND ($10::TEXT IS NULL OR e.environment = $10::TEXT)
      AND e.tags @> $11::TEXT[]
      AND ($12::BIGINT IS NULL OR e.evaluated_ns >= $12::BIGINT)
      AND ($13::BIGINT IS NULL OR e.evaluated_ns < $13::BIGINT)
      AND (e.seq, e.ordinal) < ($14::BIGINT, $15::BIGINT)
      AND {_LATEST}
    ORDER BY e.seq DESC, e.ordinal DESC
    LIMIT $16::BIGINT
"""
_END: Final = ResultPlace(2**62, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationFilter:
    """The evaluations to list; None means any."""

    space: str
    profile: str | None = None
    """Alias, name, uid or digest."""
    record: str | None = None
    """Id or uid."""
    session: str | None = None
    """Or the uid of a record without one, which is a session of its own."""
    trace_id: str | None = None
    outcomes: tuple[str, ...] | None = None
    service_name: str | None = None
    service_version: str | None = None
    environment: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    """Keys and values that are all among the evaluation's tags."""
    since_ns: int | None = None
    """Evaluated from then on."""
    until_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluations:
    """A page of a list."""

    items: tuple[EvaluationRow, ...]
    """Newest first."""
    next: ResultPlace | None
    """Where the next page goes on; None at the end."""
    as_of: int
    """The commit that the page shows; the next page needs it."""


class EvaluationReads(Reads):
    """Reads of evaluations."""

    def evaluation(self, space: str, evaluation_id: str) -> EvaluationRow | None:
        """An evaluation by its id, be it the latest of its record or not."""
        found = self.read(_ONE, [space, evaluation_id])
        return decode_evaluation(found[0][0]) if found else None

    def evaluations(
        self,
        which: EvaluationFilter,
        limit: int,
        before: ResultPlace | None = None,
        as_of: int | None = None,
    ) -> Evaluations:
        """List evaluations, newest first, each record's latest revision only.

        Args:
            which: The filter.
            limit: Most of a page.
            before: Go on behind this place, the `next` of the page before.
            as_of: Show the list as it was after this commit, so that pages read over a long time
                have each record once; None for now.
        """
        shown = self.last_seq() if as_of is None else as_of
        place = before or _END
        rows = self.read(
            _LIST,
            [
                shown, which.space, which.profile, which.record, which.session, which.trace_id,
                None if which.outcomes is None else list(which.outcomes),
                which.service_name, which.service_version, which.environment,
                tag_texts(dict(which.tags)), which.since_ns, which.until_ns, *place, limit + 1,
            ],
        )  # fmt: skip
        page = rows[:limit]
        return Evaluations(
            items=tuple(decode_evaluation(body) for *_, body in page),
            next=ResultPlace(*page[-1][:2]) if len(rows) > limit else None,
            as_of=shown,
        )
