"""The store that needs nothing else to run: one DuckDB file with one writer."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from collector.metrics import TotalKey
from collector.storage.duckdb.care import Care
from collector.storage.duckdb.dead_letters import (
    RemoveLettersJob,
)
from collector.storage.duckdb.drift import DeliveriesJob, DriftJob
from collector.storage.duckdb.drops import DropsJob
from collector.storage.duckdb.erase import FILE_STEP
from collector.storage.duckdb.judges import (
    CalibrationsJob,
    GoldJob,
)
from collector.storage.duckdb.labels import LabelsJob
from collector.storage.duckdb.opened import failed
from collector.storage.duckdb.reading import Reading
from collector.storage.duckdb.runs import RunJob, take_run
from collector.storage.duckdb.settle import settle_records
from collector.storage.duckdb.transaction import Transaction
from collector.storage.duckdb.write import (
    AlertsJob,
    EvaluationsJob,
    LettersJob,
    ProfileJob,
    RecordsJob,
    TotalsJob,
)
from collector.storage.log.span_codec import encode_batch
from collector.store.alerts import DriftDelivery, DriftEvent, DriftState
from collector.store.judges import CalibrationRow, GoldOutcome
from collector.store.labels import LabelRow
from collector.store.letters import (
    DeadLetter,
    LettersRemoved,
)
from collector.store.rows import (
    AlertEvent,
    EvaluationRow,
    ProfileRow,
    RecordRow,
    RecordsAppended,
    SettledRecord,
    SpansAppended,
)
from collector.store.runs import RunRow
from scouter.errors import DataError, TransientError
from scouter.model.span import Span
from scouter.transport.drops import Dropped


class DuckDBStore(Reading, Care):
    """The port `Store` on one DuckDB file; `Opened` tells the arguments and errors."""

    def append_spans(
        self,
        space: str,
        spans: Sequence[Span],
        received_ns: int,
        *,
        wire: bytes | None = None,
        durable: "Future[None] | None" = None,
    ) -> "Future[SpansAppended]":
        """Store spans, each key once. The rows are made in the calling thread."""
        durable = Future[None]() if durable is None else durable
        try:
            return self._journal.append(space, encode_batch(spans, wire), received_ns, durable)
        except (DataError, TransientError) as error:
            durable.set_exception(error)
            return failed(error)

    def append_records(self, records: Sequence[RecordRow]) -> "Future[RecordsAppended]":
        """Accept records, each key once. The rows are made in the calling thread."""
        return self._submit(RecordsJob.made_of(records, self._database.schemas))

    def settle_records(self, settled: Sequence[SettledRecord]) -> "Future[None]":
        """Write what traces told of accepted records."""
        work: Callable[[Transaction], None] = lambda tx: settle_records(  # noqa: E731
            self._database.connection(), settled
        )
        return self._care(work)

    def append_evaluations(self, evaluations: Sequence[EvaluationRow]) -> "Future[int]":
        """Store evaluations, each record and revision once, made in the calling thread."""
        return self._submit(EvaluationsJob.made_of(evaluations, self._database.schemas))

    def append_dead_letters(self, letters: Sequence[DeadLetter]) -> "Future[int]":
        """Put things aside."""
        return self._submit(LettersJob(rows=letters))

    def remove_dead_letters(
        self, space: str, letter_ids: Sequence[str]
    ) -> "Future[LettersRemoved]":
        """Take letters out."""
        return self._submit(
            RemoveLettersJob(database=self._database, space=space, letter_ids=letter_ids)
        )

    def append_alert_events(self, events: Sequence[AlertEvent]) -> int:
        """Keep changes of alert states."""
        return self._submit(AlertsJob(rows=events)).result()

    def append_calibrations(self, calibrations: Sequence[CalibrationRow]) -> int:
        """Keep what is known of judges."""
        return self._submit(CalibrationsJob(rows=calibrations)).result()

    def append_gold_outcomes(self, outcomes: Sequence[GoldOutcome]) -> int:
        """Keep outcomes of gold items."""
        return self._submit(GoldJob(rows=outcomes)).result()

    def save_drift(self, states: Sequence[DriftState], events: Sequence[DriftEvent]) -> int:
        """Keep states and events of detectors in one commit."""
        return self._submit(
            DriftJob(database=self._database, states=states, events=events)
        ).result()

    def append_deliveries(self, deliveries: Sequence[DriftDelivery]) -> int:
        """Keep steps of deliveries."""
        return self._submit(DeliveriesJob(rows=deliveries)).result()

    def append_labels(self, labels: Sequence[LabelRow]) -> int:
        """Keep labels; one on a record that was erased meanwhile is dropped."""
        return self._submit(LabelsJob(rows=labels)).result()

    def append_run(self, run: RunRow) -> bool:
        """Keep a run; it is compressed in the calling thread."""
        return self._submit(RunJob.of(self._database, run)).result()

    def remove_run(self, space: str, run_id: str) -> bool:
        """Take a run out, and note that its bytes are still to be taken out of the file."""

        def work(tx: Transaction) -> bool:
            self._database.make_room()
            if is_gone := take_run(self._database.connection(), space, run_id):
                tx.add("erasures", FILE_STEP, space, "", "")
            return is_gone

        return self._care(work).result()

    def append_profile(self, profile: ProfileRow) -> int:
        """Register a profile."""
        return self._submit(ProfileJob(row=profile)).result()

    def add_totals(self, deltas: Mapping[TotalKey, int]) -> "Future[int]":
        """Add to counts."""
        return self._submit(TotalsJob(deltas=deltas))

    def add_drops(self, space: str, dropped: Dropped, now_ns: int) -> "Future[int]":
        """Count what senders dropped."""
        return self._submit(
            DropsJob(database=self._database, space=space, dropped=dropped, now_ns=now_ns)
        )
