"""Decides records: reads what is missing of them, judges them and hands the evaluations on."""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from collector.pipeline.evaluate.begun import Evaluating, RecordKey
from collector.pipeline.evaluate.commit import Evaluations, EvaluationWriter
from collector.pipeline.evaluate.records import judge
from collector.pipeline.join.derive import Deriver
from collector.pipeline.join.input_clock import InputClock
from collector.pipeline.join.join import Join
from collector.pipeline.join.read_back import ReadBack, room
from collector.pipeline.join.ready import Ready
from collector.pipeline.revise.late import LateSpans
from collector.store.letters import DeadLetter
from collector.store.rows import EvaluationRow, RecordRow
from collector.worker.letters import letter_of_record, letter_of_unknown
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.ready import Need
from collector.worker.records import TraceView, judge_again
from collector.worker.rerun import Rerun, rerun_all, rerun_of
from collector.worker.turns import Pace, until

_log: Final = logging.getLogger(__name__)
_TURN_S: Final = 0.5
"""For one turn of a space: the others wait about so long, or for as long as one record takes."""
_FEW: Final = 100
_MOST: Final = 1000
"""Records that are decided together: see `Pace`."""
_UNREADABLE: Final = (
    "limit",
    "there is not enough memory to read its context; raise memory_limit, then replay the record",
)
_POISON: Final = (
    "poison",
    "its evaluation ended the collector's process twice, so it is not evaluated again; look at its "
    "context and its profile, and replay the record to have it evaluated all the same",
)


class _Group(NamedTuple):
    """Records that are evaluated by the same tasks in the same way."""

    profile_uid: str
    asks: bool
    is_reopened: bool
    is_derived: bool


class _Spent(NamedTuple):
    """Cost of deciding records."""

    judging_s: float
    left: int
    """Records that there was no time for."""


class Decider:
    """Evaluates the records that the join gives out; to be used by one thread.

    Args:
        registry: Finds the profile of a record.
        join: Gives out records, and takes back those that there is no time for.
        back: Reads contexts and spans that are not in memory.
        writer: Takes evaluations and dead letters.
        late: Told of the traces of evaluations.
        evaluating: Told of the records that are being evaluated.
        deriver: Makes records of traces that are watched, and settles sessions.
        inputs: The join's time.
        need: Tells the spans that a record waits for.
        seq: Gives the last commit whose spans are known.
        clock: Monotonic seconds.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        registry: ProfileRegistry,
        join: Join,
        back: ReadBack,
        writer: EvaluationWriter,
        late: LateSpans,
        evaluating: Evaluating,
        deriver: Deriver,
        *,
        inputs: InputClock,
        need: Callable[[RecordRow], Need],
        seq: Callable[[], int],
        clock: Callable[[], float],
        now_ns: Callable[[], int],
    ) -> None:
        self._registry, self._join, self._back, self._writer = registry, join, back, writer
        self._late, self._evaluating, self._inputs, self._need = late, evaluating, inputs, need
        self._deriver: Final = deriver
        self._seq, self._clock, self._now_ns = seq, clock, now_ns
        self._reruns: dict[tuple[str, str, bool, bool], Rerun] = {}
        self._pace: Final = Pace(_TURN_S, _FEW, _MOST)
        self.reopened: Final[set[RecordKey]] = set()
        """Records that wait to be evaluated again."""
        self.in_hand = 0
        """Records that the join gave out and that have no evaluation yet."""

    def turn(self) -> None:
        """Decide some records of the space whose turn it is.

        Raises:
            TransientError: The service ends.
        """
        space = self._join.next_space()
        if space is None:
            return
        began = self._clock()
        part = self._join.take(space, self._inputs.tick(), room(self._pace.of(space)))
        judging_s, left = 0.0, 0
        parts = self._evaluating.parted(part, [ready.key for ready in part])
        for at, together in enumerate(parts):
            if at and self._clock() - began >= _TURN_S:  # a suspect, of which nothing is read yet
                left += self._give_back(together)
                continue
            self.in_hand = sum(not ready.is_reopened for ready in together)
            try:
                spent = self._decide(together)
            finally:
                self.in_hand = 0
            judging_s += spent.judging_s
            left += spent.left
        if part:
            self._pace.took(space, len(part) - left, self._clock() - began, judging_s)

    def _give_back(self, part: Sequence[Ready]) -> int:
        """Let records wait for another turn of their space; returns their number."""
        now = self._inputs.tick()
        for ready in part:
            self._join.give_back(ready, now)
            if ready.is_reopened:
                self.reopened.add(ready.key)
        return len(part)

    def _decide(self, part: Sequence[Ready]) -> _Spent:
        """Decide records, all that are read: only if judging alone takes too long, some wait on."""
        ready_at = self._clock()
        self.reopened.difference_update(ready.key for ready in part if ready.is_reopened)
        traces = self._back.traces(part)
        part, made = self._deriver.derived(part, traces)
        earlier = self._back.earlier(part)
        letters: list[DeadLetter] = []
        stand = 0
        groups: defaultdict[_Group, list[Ready]] = defaultdict(list)
        profiles: dict[_Group, RegisteredProfile] = {}
        settled = self._deriver.settled(self._back.whole(part, earlier), traces)
        for ready in (*settled, *made):
            registered = self._judge_of(ready, earlier, letters)
            if registered is not None:
                registered = registered.of_record(ready.record)
                group = _Group(
                    registered.uid,
                    registered.asks,
                    is_reopened=ready.is_reopened,
                    is_derived=ready.record.is_derived,
                )
                profiles[group] = registered
                groups[group].append(ready)
            stand += registered is None and ready.is_reopened
        if stand:
            _log.warning(
                "spans came behind %d results that cannot be made again and stand: their profile "
                "cannot be used any more, or there is too little memory for them", stand,
            )  # fmt: skip
        known = (ready.record for ready in (*part, *made) if ready.need is Need.TRACE)
        self._late.judged([(row.space, row.trace_id or "") for row in known])
        judging_s, left = 0.0, 0
        for group, items in groups.items():
            began = self._clock()
            if judging_s >= _TURN_S:
                left += self._give_back(items)
                continue
            is_late = until(self._clock, _TURN_S - judging_s)
            seen = traces.get(items[0].record.space, {})
            with self._evaluating.noted([ready.key for ready in items]):
                rows, rest = self._judged(items, profiles[group], seen, earlier, letters, is_late)
            judging_s += self._clock() - began
            left += self._give_back(rest)
            waits = {ready.record.uid: ready.waited_s for ready in items}
            waits_s = [waits[row.record_uid] for row in rows]
            self._writer.put(Evaluations(rows=rows, waits_s=waits_s, ready_at=ready_at))
        self._writer.put_aside(letters)
        return _Spent(judging_s, left)

    def _judge_of(
        self,
        ready: Ready,
        earlier: Mapping[RecordKey, tuple[RecordRow, EvaluationRow]],
        letters: list[DeadLetter],
    ) -> RegisteredProfile | None:
        """The profile that judges a record; again, the one that did so last. None: nothing does."""
        found = earlier.get(ready.key)
        if found is not None:
            registered = self._registry.get(ready.record.space, found[1].profile_uid)
        else:
            registered = self._registry.of_record(ready.record)
        why = None
        if ready.key in self._evaluating.poison:
            self._evaluating.poison.discard(ready.key)  # a replay of the letter may try again
            why = _POISON
        elif not ready.is_whole and ready.early is None:
            why = _UNREADABLE
        if ready.is_reopened:
            return None if why else registered
        if why:
            letters.append(letter_of_record(ready.record, *why))
        elif registered is None:
            why_unusable = self._registry.why_unusable(ready.record)
            letters.append(letter_of_unknown(self._back.whole_record(ready), why_unusable))
        elif ready.need is not Need.PROFILE:
            return registered
        else:  # registered at the last moment
            now = self._inputs.tick()
            self._join.add_record(ready.record, self._need(ready.record), now)
        return None

    def _judged(
        self,
        items: Sequence[Ready],
        registered: RegisteredProfile,
        traces: Mapping[str, TraceView],
        earlier: Mapping[RecordKey, tuple[RecordRow, EvaluationRow]],
        letters: list[DeadLetter],
        is_late: Callable[[], bool],
    ) -> tuple[list[EvaluationRow], Sequence[Ready]]:
        """Evaluate records of one profile; where the engine fails, one by one.

        Returns:
            Evaluations, and the last records, which there was no time for.
        """
        seq, now_ns = self._seq(), self._now_ns()
        try:
            if not items[0].is_reopened:
                rows = judge(items, registered, traces, seq=seq, now_ns=now_ns, is_late=is_late)
            else:
                pairs = [(ready, earlier[ready.key][1]) for ready in items]
                rerun = self._rerun(registered, is_derived=items[0].record.is_derived)
                rows = judge_again(
                    pairs, registered, rerun, traces, seq=seq, now_ns=now_ns, is_late=is_late
                )
        except Exception as error:  # noqa: BLE001 one record must not stop the others
            if len(items) > 1:
                return self._one_by_one(items, registered, traces, earlier, letters, is_late)
            _log.exception("profile %s: the engine failed", registered.profile.alias)
            if not items[0].is_reopened:  # else the evaluation that is there stays
                record = self._back.whole_record(items[0])
                letters.append(letter_of_record(record, "engine_fault", repr(error)))
            return [], ()
        return rows, items[len(rows) :]

    def _one_by_one(
        self,
        items: Sequence[Ready],
        registered: RegisteredProfile,
        traces: Mapping[str, TraceView],
        earlier: Mapping[RecordKey, tuple[RecordRow, EvaluationRow]],
        letters: list[DeadLetter],
        is_late: Callable[[], bool],
    ) -> tuple[list[EvaluationRow], Sequence[Ready]]:
        rows: list[EvaluationRow] = []
        for at, ready in enumerate(items):
            if at and is_late():
                return rows, items[at:]
            made, _ = self._judged([ready], registered, traces, earlier, letters, is_late)
            rows += made
        return rows, ()

    def _rerun(self, registered: RegisteredProfile, *, is_derived: bool) -> Rerun:
        key = (registered.space, registered.uid, registered.asks, is_derived)
        found = self._reruns.get(key)
        if found is None:
            # Spans can change the whole context of a derived record.
            make = rerun_all if is_derived else rerun_of
            found = self._reruns[key] = make(registered.plan)
        return found
