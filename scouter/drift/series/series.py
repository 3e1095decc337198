"""Series: the outcomes of one task, under one profile and one version of an agent."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from scouter.drift.detect.baseline import ENOUGH
from scouter.drift.detect.detector import ALPHA
from scouter.drift.series.reference import Reference, ReferenceKind, Standard, of_sample
from scouter.drift.series.sample import COMPLETE, HOUR_NS, Sample
from scouter.drift.series.watch import Fall, Mark, Watch

FEWEST: Final = 300
"""Units that a baseline of a series' own first outcomes has at least, however many records."""
COMPARABLE: Final = 100
"""Units of the version before from which on a new version is compared with it."""
MOST: Final = 5_000
"""Units up to which a series awaits the version before."""
FIRST_PART: Final = 0.8
LATER_PART: Final = 0.05
"""Parts of the chance of a wrong bound that the reference of the first records gets, as falls are
seen soon by it, and each of up to four later ones."""
BURST: Final = 20
"""Records in which errors count once: they come in bursts, such as from a rate limit."""
RECENT: Final = 500
"""Units of one of the two parts that `recent` is made of."""
_EXAMPLES: Final = 3
_NO_HOUR: Final = -1
_STATED: Final = frozenset({ReferenceKind.LEVEL, ReferenceKind.RUN})
"""References that are there before anything is measured."""


class Kind(StrEnum):
    """The kind of outcome that a series counts."""

    PASS = "pass"  # noqa: S105 no password
    """Passes among passed and failed."""
    ERROR = "error"
    """Decided ones among decided and errored: a fall is a rise of errors."""
    SCORE = "score"
    """Scores, and measures against an objective, from 0 to 1."""
    AMOUNT = "amount"
    """Records within a limit on their cost, or their duration, among all; see `Limits`."""


class SeriesState(StrEnum):
    """The state of a series with its detectors."""

    LEARNING = "learning"
    """Too few outcomes are known for a reference, so that no fall can be proven yet."""
    NEVER_PASSED = "never_passed"
    """No outcome was good: nothing can be worse, so no fall can be proven."""
    WATCHED = "watched"
    """Compared with one reference or more."""
    FALLEN = "fallen"


class Agent(NamedTuple):
    """The agent, as the spans of the trace name it; empty where none were read."""

    service: str = ""
    environment: str = ""
    version: str = ""


class SeriesKey(NamedTuple):
    """The name of a series."""

    space: str
    profile_uid: str
    """Uid of name and digest: other tasks, prompts or models begin another series."""
    agent: Agent
    task: str
    """Empty for the whole record."""
    kind: Kind
    slice: str = ""
    """Part of the records, such as `tool search`; empty for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestor:
    """The samples that the series of an earlier version hands on."""

    version: str
    sample: Sample
    oldest: Sample
    oldest_version: str
    is_named: bool = False
    """The profile names it; else it is the one before."""


class Unit(NamedTuple):
    """One outcome, as a series takes it."""

    outcome: float
    records: int
    failed: int
    at_ns: int
    created_ns: int


class Series:
    """Outcomes of one task and the watches on them.

    Args:
        key: Its name.
        alpha: Chance of ever alarming while nothing is wrong, all references together.
        stated: References that somebody states for its task.
        before: The same task's series of the version before, if there is one that is comparable.
        run_length: Least average number of units between two false alarms, all references
            together; in place of the chance of ever alarming, which is unbounded then. `alpha`
            still bounds the chance that a reference is worse than its lower bound.
        awaits: There is a version before that is not comparable yet, and may become so: see
            `adopt`.
        margin: See `of_sample`; of every reference that is measured.
    """

    __slots__ = (
        "_alpha", "_awaited", "_before_fall", "_burst", "_hour", "_is_fallen", "_is_past",
        "_last_part", "_last_total", "_learns", "_margin", "_part", "_part_total", "_past",
        "_run_length", "_stage", "_stated", "examples", "explained", "failed", "key", "last_ns",
        "oldest", "oldest_version", "records", "sample", "total", "units", "watches",
    )  # fmt: skip

    def __init__(
        self,
        key: SeriesKey,
        alpha: float = ALPHA,
        stated: Sequence[Standard] = (),
        before: Ancestor | None = None,
        run_length: float | None = None,
        awaits: bool = False,
        margin: float = 0.0,
    ) -> None:
        self.key: Final = key
        self._awaited: list[Unit] | None = [] if awaits else None
        """Its outcomes, for a version before that may become comparable; None where none may."""
        self._run_length = run_length
        self._alpha, self._stated, self._margin = alpha, len(stated), margin
        self.sample = Sample()
        """Outcomes that a later version, or this series itself, is compared with."""
        self._is_past = True
        """No outcome of its time is in the sample yet."""
        self._past = Sample()
        """Outcomes of backfills beside a sample that has others."""
        self.oldest = before.oldest if before else None
        self.oldest_version = before.oldest_version if before else ""
        self.units = self.records = self.failed = 0
        self.total = 0.0
        self.last_ns = 0
        self.examples: tuple[str, ...] = ()
        """Evaluations that failed last, the newest first."""
        self.watches: list[Watch] = []
        self._is_fallen = False
        self._burst = 0
        """Records that are left of a burst of errors."""
        self._hour = _NO_HOUR
        """Hour since 1970 that all watches know of."""
        self._stage = 0
        """Sizes of its sample at which it was looked at, see `_look`."""
        self._before_fall: Sample | None = None
        """The sample without the fall, where one goes on in the first days."""
        self.explained = ""
        """How the time of day explained the fall that ended last; empty for another end."""
        self._part, self._part_total = 0, 0.0
        """Units of the part that grows, and the sum of their outcomes."""
        self._last_part, self._last_total = 0, 0.0
        """The same of the part before."""
        for each in stated:
            self._watch(each.reference(self._share(before)))
        if before is not None:
            self._hold_against(before)
        self._learns = self._lacks_measured

    @property
    def _lacks_measured(self) -> bool:
        return {watch.reference.kind for watch in self.watches} <= _STATED

    @property
    def awaits(self) -> bool:
        """True while it would be compared with the version before, if that became comparable."""
        return self._awaited is not None

    def adopt(self, before: Ancestor | None) -> bool:
        """Hold a series that still learns against the version before, which became comparable.

        All its outcomes so far are looked at as if it had been compared with it from its first one
        on: which they are has no part in when that happens, so that the chance of a false alarm
        stays what it was. The reference has the share of its own first outcomes, which are not
        learnt then.

        Args:
            before: What the version before hands on; None where there is none any more.

        Returns:
            True if the series has fallen with that.

        Cost: linear in the outcomes so far.
        """
        units, self._awaited = self._awaited or (), None
        if before is None:
            return False
        kind = ReferenceKind.NAMED if before.is_named else ReferenceKind.VERSION
        reference = self._measured(kind, before.version, before.sample, self._share(None))
        self.oldest, self.oldest_version = before.oldest, before.oldest_version
        if not reference.is_usable:
            return False
        self._watch(reference)
        self._learns = False
        self._look_back(units)
        self._hour = _NO_HOUR
        was_fallen = self._is_fallen
        self._is_fallen = any(watch.fall is not None for watch in self.watches)
        if self._is_fallen:
            # What was bad from the first outcomes on is no measure.
            self.sample, self._before_fall = Sample(), Sample()
        return self._is_fallen and not was_fallen

    def _look_back(self, units: Sequence[Unit]) -> None:
        """Let the last watch take the outcomes so far."""
        watch, mark = self.watches[-1], Mark(0, 0, 0.0, 0, 0)
        for unit in units:
            before = mark._replace(at_ns=unit.at_ns)
            watch.turn(unit.created_ns // HOUR_NS)
            mark = Mark(
                unit.at_ns, mark.units + 1, mark.total + unit.outcome, mark.records + unit.records,
                mark.failed + unit.failed,
            )  # fmt: skip
            if unit.outcome < 1 or not watch.is_quick:
                watch.take(unit.outcome, before, mark)
            else:
                watch.take_pass()

    def _share(self, before: Ancestor | None) -> float:
        """The share of alpha that each reference gets."""
        has_oldest = before is not None and before.oldest_version != before.version
        return self._alpha / (1 + has_oldest + self._stated)

    def _hold_against(self, before: Ancestor) -> None:
        share = self._share(before)
        kind = ReferenceKind.NAMED if before.is_named else ReferenceKind.VERSION
        self._watch(self._measured(kind, before.version, before.sample, share))
        if before.oldest_version != before.version:
            name, oldest = before.oldest_version, before.oldest
            self._watch(self._measured(ReferenceKind.OLDEST, name, oldest, share))

    def _measured(
        self, kind: ReferenceKind, name: str, sample: Sample, share: float, part: float = 1.0
    ) -> Reference:
        return of_sample(kind, name, sample, share, margin=self._margin, part=part)

    def _watch(self, reference: Reference) -> None:
        if not reference.is_usable:
            return
        run_length = self._run_length
        if run_length is not None:  # false alarms of all references add up
            run_length *= self._alpha / reference.baseline.alpha
        self.watches = [*self.watches, Watch(reference, run_length)]  # no room to grow: few do
        self._hour = _NO_HOUR

    def restate(self, stated: Sequence[Standard], margin: float = 0.0) -> bool:
        """Hold a series that nothing is known of yet to what somebody states now.

        Returns:
            Whether it is; where there is a reference already, the allowed chance is given away.
        """
        if self.watches:
            return False
        self._stated, self._margin = len(stated), margin
        for each in stated:
            self._watch(each.reference(self._share(None)))
        return bool(self.watches)

    @property
    def enough(self) -> int:
        """Own first records from which it takes a reference: a slice has few for a long time."""
        return FEWEST if self.key.slice else ENOUGH

    @property
    def is_learning(self) -> bool:
        """True while its own first outcomes are gathered, to be compared with them."""
        return self._learns

    @property
    def state(self) -> SeriesState:
        """The state of the series now."""
        if self._is_fallen:
            return SeriesState.FALLEN
        if self.watches:
            return SeriesState.WATCHED
        is_known = self.records >= self.enough and self.units >= FEWEST
        return SeriesState.LEARNING if self.total or not is_known else SeriesState.NEVER_PASSED

    @property
    def is_fallen(self) -> bool:
        """True while a fall is proven, by any reference."""
        return self._is_fallen

    @property
    def evidence(self) -> float:
        """Evidence of a fall against whichever reference has the most, as an e-value.

        That of each reference counts by its share of alpha, so that 1 / alpha is the line. With a
        run length it is a detector in place of an e-value, on the same scale.
        """
        return max(map(_weighed, self.watches), default=0.0) / self._alpha

    def take(
        self,
        outcome: float,
        records: int,
        failed: int,
        at_ns: int,
        examples: Sequence[str] = (),
        created_ns: int | None = None,
    ) -> bool:
        """Take the outcome of the next unit.

        Args:
            outcome: Mean of the unit, in [0, 1]; 1 for all passed.
            records: Records in it.
            failed: Of them the ones that failed.
            at_ns: Time of its last result, so that a fall since then has the results that make it.
            examples: Evaluations in it that failed, the newest first.
            created_ns: Time at which its first record was made; that of the last result else.

        Returns:
            True if the series has fallen, or recovered, with this unit; or if its first days ended
            and an alarm goes on.
        """
        created_ns = at_ns if created_ns is None else created_ns
        # Workers are ahead of each other: a unit counts as seen with the last of those before it.
        at_ns = max(at_ns, self.last_ns)
        hour = created_ns // HOUR_NS
        was_fallen, self.explained, is_settled = self._is_fallen, "", False
        if hour != self._hour:
            is_settled = self._turn(hour)
        self.last_ns = at_ns
        self._show(outcome)
        if self.key.kind is Kind.ERROR:
            once = self._once(outcome, records, failed)
            if once is None:
                return was_fallen is not self._is_fallen or is_settled
            outcome = once
        if self._awaited is not None:
            self._awaited.append(Unit(outcome, records, failed, at_ns, created_ns))
        if examples and self._is_bad(outcome):
            self.examples = (*examples, *self.examples)[:_EXAMPLES]
        turned = self._take_good(records) if outcome == 1 else self._take(outcome, records, failed)
        if turned:
            self._settle()
        if self._gathers:
            self._is_past = False
            self.sample.add(outcome, records, hour)
            if not (self.sample.days and self._stage):
                self._look()
        return was_fallen is not self._is_fallen or is_settled

    def take_past(self, outcome: float, records: int, created_ns: int) -> None:
        """Take the outcome of a backfill: part of a reference, and no evidence.

        Where outcomes of their time came first, backfills are the reference once they are enough
        for one, if nothing else is by then. Errors come in bursts, and are learnt as they come.

        Args:
            outcome: Mean of the unit, in [0, 1]; 1 for all passed.
            records: Records in it.
            created_ns: Time at which its first record was made.
        """
        is_wanted = self._learns or self._is_past
        if self.key.kind is Kind.ERROR or not is_wanted or self.sample.is_complete:
            return
        hour, past = created_ns // HOUR_NS, self.sample if self._is_past else self._past
        is_day = past.ends_day(hour)
        past.add(outcome, records, hour)
        if not self._is_past and past.records >= self.enough and past.units >= FEWEST:
            self.sample, self._past, self._is_past = past, Sample(), True
        if self._is_past and (is_day or not (past.days and self._stage)):
            self._look()

    def _turn(self, hour: int) -> bool:
        """Begin another hour, or the same one with other references; see `_look`."""
        is_settled = self._gathers and self.sample.ends_day(hour) and self._look()
        for watch in self.watches:
            watch.turn(hour)
        self._hour = hour
        return is_settled

    def _settle(self) -> None:
        """Note a fall or its end. In the first days the sample grows with it, and a copy waits."""
        self._is_fallen = any(watch.fall is not None for watch in self.watches)
        if self._is_fallen and self._is_early:
            self._before_fall = self._before_fall or self.sample.copy()
            return
        if self._is_fallen and self._before_fall is not None:
            self.sample = self._before_fall
        self._before_fall = None

    @property
    def _is_early(self) -> bool:
        """True while all falls may be the time of day."""
        return all(watch.reference.is_early for watch in self.watches if watch.fall is not None)

    @property
    def _gathers(self) -> bool:
        """True while its sample grows: to the end of the first days, and never with a fall."""
        return not self.sample.is_complete and (not self._is_fallen or self._is_early)

    def _once(self, outcome: float, records: int, failed: int) -> float | None:
        """Let an error and the records behind it be one unit that failed; see `BURST`.

        Returns:
            The outcome of the unit; None for records that belong to an error before them.
        """
        if self._burst > 0:
            self._burst -= records
            self.records += records
            self.failed += failed
            if self._gathers:
                self.sample.records += records
            return None
        if outcome == 1:
            return outcome
        self._burst = BURST - records
        return 0.0

    def _is_bad(self, outcome: float) -> bool:
        """Tell whether a unit is an example of a fall: few scores are as good as can be."""
        if self.key.kind is not Kind.SCORE or not self.watches:
            return outcome < 1
        return outcome < self.watches[0].reference.baseline.lower

    def _look(self) -> bool:
        """Take a reference from its own outcomes, or a better one, where they are enough.

        That is at 1,000 and 5,000 records (of a slice 300 and 1,000), at the first and the second
        whole day, and at the whole day that makes the sample complete. After the first day the
        sample is looked at only when another one is whole.

        Returns:
            True if an alarm goes on that the time of day does not explain.
        """
        sample = self.sample
        is_known = sample.records >= self.enough and sample.units >= FEWEST
        many = ENOUGH if self.key.slice else COMPLETE
        stage = min(sample.days, 2) + is_known + (is_known and sample.records >= many)
        if stage <= self._stage or not (is_known or sample.days > 1):
            return False
        if self._learns:
            if is_known:
                self._learn(stage)
            return False
        halves = sample.halves()
        if halves is not None and not halves.is_confirmed and sample.days < 2:
            return False  # one change, or the time of day: the second day says which
        self._stage = stage
        share = self._share(None)
        own = self._measured(ReferenceKind.FIRST, "", sample, share, LATER_PART)
        was_early = self._is_fallen and self._is_early
        for watch in self.watches:
            self._refer(watch, own)
        self._hour = _NO_HOUR
        self.watches = list({watch.reference: watch for watch in self.watches}.values())
        self._settle()
        if was_early and not self._is_fallen:
            self.explained = f"two days show that this is usual: {own.rates}"
        return was_early and self._is_fallen and not self._is_early

    def _refer(self, watch: Watch, own: Reference) -> None:
        """Let a watch take a reference that was taken from the series' own outcomes."""
        reference = watch.reference
        if reference.kind in _STATED:
            return
        is_own = watch.fall is None and reference.kind is ReferenceKind.FIRST
        if is_own or (reference.is_early and watch.is_usual(own, self._mark())):
            watch.refer(own)
        elif self.sample.days > 1:
            watch.settle()

    def _learn(self, stage: int) -> None:
        """Take the first reference; where nothing was good there is none, and another is learnt."""
        share = self._share(None)
        own = self._measured(ReferenceKind.FIRST, "", self.sample, share, FIRST_PART)
        self._learns = not own.is_usable
        if self._learns:
            self.sample = Sample()
        else:
            self._stage = stage
        if not self._learns or self.units >= MOST:
            self._awaited = None  # the chance of a false alarm is given away
        self._watch(own)

    def _take_good(self, records: int) -> bool:
        """Take an outcome of 1, at which no fall begins; most are, so this is short."""
        if not all([watch.is_quick for watch in self.watches]):
            return self._take(1.0, records, 0)
        self._count(1.0, records)
        turned = False
        for watch in self.watches:
            watch.detector.update(1)
            if watch.recovery is not None:
                turned |= watch.take_recovery(1)
        return turned

    def _take(self, outcome: float, records: int, failed: int) -> bool:
        before = self._mark()
        self._count(outcome, records)
        self.failed += failed
        after = self._mark()
        # A list: each watch is to take the outcome.
        return any(
            [
                watch.take_pass()
                if outcome == 1 and watch.is_quick
                else watch.take(outcome, before, after)
                for watch in self.watches
            ]
        )

    def _count(self, outcome: float, records: int) -> None:
        self.units += 1
        self.total += outcome
        self.records += records

    def _show(self, outcome: float) -> None:
        """Count an outcome for pictures, as it was."""
        self._part += 1
        self._part_total += outcome
        if self._part == RECENT:
            self._last_part, self._last_total = RECENT, self._part_total
            self._part, self._part_total = 0, 0.0

    @property
    def recent(self) -> tuple[int, float]:
        """Units of late and the sum of their outcomes: 500 to 1,000 units, or all there are.

        A window for pictures; no alarm comes of it.
        """
        return self._part + self._last_part, self._part_total + self._last_total

    def _mark(self) -> Mark:
        return Mark(self.last_ns, self.units, self.total, self.records, self.failed)

    def fall(self) -> Fall | None:
        """The proven fall with the most evidence for its share; None where none is proven."""
        now = self._mark()
        falls = [(w.figures(now), w.detector.design.alpha) for w in self.watches]
        proven = [(fall.evidence * alpha, fall) for fall, alpha in falls if fall is not None]
        return max(proven, key=lambda each: each[0])[1] if proven else None

    def hand_on(self) -> Ancestor | None:
        """Give the next version what it is compared with; None while that is too little.

        A version that ran too shortly, or was bad from its first records on, hands on the oldest
        one: what comes next is not its own measure.
        """
        sample = self._before_fall or self.sample
        if sample.units < COMPARABLE:
            if self.oldest is None:
                return None
            known = self.oldest_version
            return Ancestor(
                version=known, sample=self.oldest, oldest=self.oldest, oldest_version=known
            )
        version = self.key.agent.version
        return Ancestor(
            version=version,
            sample=sample.copy(),
            oldest=sample.copy() if self.oldest is None else self.oldest,
            oldest_version=version if self.oldest is None else self.oldest_version,
        )

    def prove(self) -> bool:
        """Note a fall that is proven by less evidence than its own line wants, as a slice's is.

        Returns:
            True if it has fallen with that.
        """
        is_proven = max(self.watches, key=_weighed).prove(self._mark())
        if is_proven:
            self._settle()
        return is_proven

    def restart(self) -> None:
        """Gather evidence anew against the same references, as after an alarm that is settled."""
        for watch in self.watches:
            watch.restart()
        self._is_fallen, self._before_fall = False, None

    def accept(self) -> None:
        """Take what comes from now on for healthy: references that were measured are learnt anew.

        One that somebody stated and that is not met goes, too, as somebody has accepted that.
        """
        self.sample, self.oldest, self.oldest_version, self._learns = Sample(), None, "", True
        self._past, self._is_past = Sample(), False
        self._stage = 0
        self._awaited = None
        self.watches = [
            watch
            for watch in self.watches
            if watch.reference.kind in _STATED and watch.fall is None
        ]
        self.restart()

    def to_json(self) -> dict[str, Any]:
        """The state, from which `from_json` goes on exactly."""
        return {
            "task": self.key.task, "kind": self.key.kind.value, "slice": self.key.slice,
            "alpha": self._alpha,
            "run_length": self._run_length, "margin": self._margin,
            "stated": self._stated, "units": self.units, "total": self.total,
            "records": self.records, "failed": self.failed, "last_ns": self.last_ns,
            "examples": self.examples, "sample": self.sample.to_json(),
            "before_fall": None if self._before_fall is None else self._before_fall.to_json(),
            "oldest": None if self.oldest is None else self.oldest.to_json(),
            "oldest_version": self.oldest_version, "learns": self._learns, "stage": self._stage,
            "burst": self._burst,
            "parts": [
                (self._part, self._part_total), (self._last_part, self._last_total),
            ],
            "awaited": self._awaited,
            "past": self._past.to_json() if self._past.units else None, "is_past": self._is_past,
            "watches": [watch.to_json() for watch in self.watches],
        }  # fmt: skip

    @staticmethod
    def from_json(space: str, profile_uid: str, agent: Agent, state: dict[str, Any]) -> "Series":
        """Go on from a stored state."""
        name = state["task"], Kind(state["kind"]), state["slice"]
        key = SeriesKey(space, profile_uid, agent, *name)
        found = Series(key, state["alpha"], run_length=state["run_length"])
        found._stated, found._margin = state["stated"], state["margin"]
        found.units, found.total = state["units"], state["total"]
        found.records, found.failed = state["records"], state["failed"]
        found.last_ns, found.examples = state["last_ns"], tuple(state["examples"])
        found.sample = Sample.from_json(state["sample"])
        before_fall = state["before_fall"]
        found._before_fall = None if before_fall is None else Sample.from_json(before_fall)
        found.oldest = None if state["oldest"] is None else Sample.from_json(state["oldest"])
        found.oldest_version = state["oldest_version"]
        found.watches = [Watch.from_json(each) for each in state["watches"]]
        found._learns, found._stage = state["learns"], state["stage"]
        found._burst, found._is_past = state["burst"], state["is_past"]
        if state["past"] is not None:
            found._past = Sample.from_json(state["past"])
        awaited = state["awaited"]
        found._awaited = None if awaited is None else [Unit(*each) for each in awaited]
        (found._part, found._part_total), (found._last_part, found._last_total) = state["parts"]
        found._is_fallen = any(watch.fall is not None for watch in found.watches)
        return found


def _weighed(watch: Watch) -> float:
    return watch.detector.evidence * watch.detector.design.alpha
