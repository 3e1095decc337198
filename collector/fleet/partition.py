"""One partition that a worker owns: its work on its share of the store, and its judges.

It comes with the group's assignment and goes with it. What it has in memory its next owner reads
again, from the store and from the offset in it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from collector.fleet.share import Share
from collector.judging.worker import JudgeWorker
from collector.store.rows import (
    FIRST_RESULT,
    EvaluationRow,
    PendingEvaluation,
    RecordRow,
    ResultPlace,
)
from collector.worker.worker import Worker
from scouter.model.span import Span


class WorkOf(Protocol):
    """Makes the work on one log and one share; nothing is started."""

    def __call__(self, share: Share, on_pending: Callable[[], None]) -> Worker:
        """Make it."""
        ...


class JudgingOf(Protocol):
    """Makes the part that asks judges about what is pending; nothing is started."""

    def __call__(self, store: "PendingOfShare", worker: Worker, /) -> JudgeWorker:
        """Make it."""
        ...


class OwnedPartition:
    """A partition in the hands of this process.

    Args:
        share: Its part of the store, taken.
        work_of: Makes its work.
        judging_of: Makes the part that asks its judges.
    """

    def __init__(self, share: Share, work_of: WorkOf, judging_of: JudgingOf) -> None:
        self.share: Final = share
        self.worker: Final = work_of(share, self._wake)
        self._judging: Final = judging_of(PendingOfShare(share), self.worker)

    def start(self) -> None:
        """Take up what an earlier owner left, and go on."""
        self.worker.start()
        self._judging.start()

    def stop(self) -> None:
        """Finish what is in hand, as far as the partition is still owned, and let it go."""
        self._judging.stop()
        self.worker.stop()
        self.share.close()

    def _wake(self) -> None:
        self._judging.wake()


class PendingOfShare:
    """What is pending in one share, and what it is about, which may lie in any share."""

    def __init__(self, share: Share) -> None:
        self.part: Final = share.part
        self._share, self._whole = share, share.whole

    def last_seq(self) -> int:
        """The newest commit up to which everything can be seen."""
        return self._whole.last_seq()

    def pending_evaluations(
        self,
        limit: int,
        after: ResultPlace = FIRST_RESULT,
        profiles: Collection[str] | None = None,
        *,
        others: bool = False,
    ) -> list[PendingEvaluation]:
        """Latest evaluations of which some tasks are pending."""
        return self._share.pending_evaluations(limit, after, profiles, others=others)

    def session_records(
        self, space: str, session_ids: Iterable[str], limit: int
    ) -> list[RecordRow]:
        """Accepted records of some sessions, without contexts."""
        return self._whole.session_records(space, session_ids, limit)

    def context_sizes(self, space: str, uids: Iterable[str]) -> Mapping[str, int]:
        """By uid the bytes of a record's context."""
        return self._whole.context_sizes(space, uids)

    def records_of(self, space: str, uids: Iterable[str]) -> list[RecordRow]:
        """Whole records by their uids."""
        return self._whole.records_of(space, uids)

    def latest_evaluations(
        self, keys: Collection[tuple[str, str]]
    ) -> Mapping[tuple[str, str], EvaluationRow]:
        """The latest evaluation by space and uid."""
        return self._whole.latest_evaluations(keys)

    def spans_of(self, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
        """Whole traces by id."""
        return self._whole.spans_of(space, trace_ids)

    def refused_spans(self, space: str, trace_ids: Collection[str]) -> Mapping[str, str]:
        """By trace id why a span of it was refused."""
        return self._whole.refused_spans(space, trace_ids)
