"""The store: everything that was accepted and decided, behind one class."""

from abc import abstractmethod
from collections.abc import Callable, Sequence

from collector.key_filter import KeyFilter
from collector.metrics import TotalKey, TotalName, Totals
from collector.store.alerts import Alerts
from collector.store.commit import Commit
from collector.store.conservation import ConservationReads
from collector.store.decided import ChangeReads, DecidedReads
from collector.store.drops import Drops
from collector.store.erase import Erased, EraseReads, EraseTarget, Gone, change_of
from collector.store.evaluations import EvaluationFacetReads, EvaluationReads
from collector.store.halves import HalfReads
from collector.store.judges import Judges
from collector.store.labels import Labels
from collector.store.profiles import Profiles
from collector.store.rates import RateReads
from collector.store.reads import Change
from collector.store.record_text import SessionTextReads
from collector.store.setups import SetupReads
from collector.store.spans import SpanReads
from collector.store.task_results import TaskResultReads
from collector.store.tombstones import Tombstones
from collector.store.trace_text import TraceTextReads
from collector.store.traces import TraceFacetReads
from collector.store.unjudged import UnjudgedReads
from collector.store.usage import UsageReads
from collector.store.versions import VersionReads
from collector.store.waiting import WaitingReads


class Store(
    EraseReads,
    WaitingReads,
    UnjudgedReads,
    SessionTextReads,
    EvaluationReads,
    EvaluationFacetReads,
    VersionReads,
    RateReads,
    TaskResultReads,
    SpanReads,
    TraceTextReads,
    TraceFacetReads,
    HalfReads,
    SetupReads,
    UsageReads,
    ConservationReads,
    DecidedReads,
    ChangeReads,
    Profiles,
    Alerts,
    Labels,
    Judges,
    Drops,
):
    """Everything that was stored, of any database; any thread may commit, erase and read."""

    offset: int
    """Everything before it in the log is stored."""
    low_seq: int
    """The oldest commit whose rows the join needs."""
    received_ns: int
    """The newest time of arrival of anything that is stored."""
    tombstones: Tombstones
    """Marks of everything that was erased."""

    @abstractmethod
    def commit(self, rows: Commit) -> int:
        """Store rows, and how far the log was read, in one transaction.

        Returns:
            The number of the commit; it is durable then.

        Raises:
            DataError: A value cannot be stored, however often it is tried.
            TransientError: The store takes nothing now; a later try may work.
        """

    @abstractmethod
    def works_here(self) -> None:
        """Take the reads of this thread for the worker's from now on."""

    @abstractmethod
    def need_from(self, seq: int) -> None:
        """Let retention take out what the join does not need any more; the worker, with no commit.

        Args:
            seq: The oldest commit that is needed. A later commit stores it.
        """

    @abstractmethod
    def recorded_traces(self, since_ns: int) -> KeyFilter:
        """The hashes of the traces of stored records; of old ones of any, or none.

        Args:
            since_ns: Old is what came, and was evaluated, before.
        """

    @abstractmethod
    def totals(self) -> Totals:
        """All counts as of the last commit."""

    @abstractmethod
    def commit_age_s(self) -> float:
        """Seconds since the last commit, or since the store was opened."""

    @abstractmethod
    def fault(self) -> str:
        """Reason that the store takes nothing now, as far as known; empty if it takes rows."""

    @property
    @abstractmethod
    def is_broken(self) -> bool:
        """True once the store takes nothing any more, and only a new process helps."""

    @abstractmethod
    def observe_commits(self, observe: Callable[[float], None]) -> None:
        """Have the seconds that each commit takes reported, in the thread that commits."""

    @abstractmethod
    def close(self) -> None:
        """Write what waits, and end."""

    def _rests_of(self, gone: Gone) -> Sequence[Change]:
        """Changes that note bytes of what is erased, where somebody takes them out later."""
        del gone
        return ()

    def erase(self, target: EraseTarget) -> Erased:
        """Take out everything that a target names; no read finds it from then on.

        Its bytes may be in the file until `purge` has come by.

        Raises:
            TransientError: The store takes nothing now; nothing has changed.

        Cost: commits wait for a scan of records and of the hashes of traces.
        """
        with self.alone():
            gone = self.find_gone(target)
            marks = gone.tombstones(target)
            evaluations, letters = self._counts_of(gone)
            changes = [] if gone.is_empty else [change_of(gone), *self._rests_of(gone)]
            if marks or changes:
                self.write({"erased": marks, **gone.counts.rows()}, changes)
            self.tombstones.add_all(marks)
            seq = self.last_seq()
        return Erased(
            space=target.space,
            seq=seq,
            uids=frozenset(gone.uids),
            traces=frozenset((*gone.traces, *gone.spans)),
            spans=gone.counts.totals[TotalKey(TotalName.ERASED, target.space, label="span")],
            evaluations=evaluations,
            dead_letters=letters,
            runs=len(gone.runs),
        )

    def _counts_of(self, gone: Gone) -> tuple[int, int]:
        """Evaluations and letters that go; of some records a letter is the state."""
        ((evaluations,),) = self.read_for_work(
            "SELECT count(*) FROM evaluations WHERE space = $1 AND record_uid = ANY($2::TEXT[])",
            [gone.space, [*gone.uids, *gone.session_uids]],
        )
        ((letters,),) = self.read_for_work(
            "SELECT count(*) FROM dead_letters"
            " WHERE space = $1 AND was_accepted = 1 AND uid = ANY($2::TEXT[])",
            [gone.space, gone.uids],
        )
        return evaluations, letters + len(gone.letters)
