"""The profiles that the collector knows, and which of them a record means."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from pydantic import ValidationError

from collector.metrics import RECEIVED, TotalKey, TotalName, Totals
from collector.store.rows import ProfileChange, ProfileRow, RecordRow
from collector.store.store import Store
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import JUDGE_SAMPLE, is_sampled
from scouter.errors import ConfigError, ScouterError
from scouter.evaluate.engine.plan import Plan, compile_plan
from scouter.evaluate.files.field_errors import first_problem
from scouter.evaluate.outcome import DECIDED, Outcome
from scouter.evaluate.spans.filters import Test
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.report import ReportTask
from scouter.evaluate.tasks.score import ScoreTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.model.attributes import ENTITY_PREFIX
from scouter.queue.sampling import id_is_sampled

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredProfile:
    """A profile as it stands in one space."""

    space: str
    profile: AgentEvalProfile
    is_active: bool
    registered_ns: int

    uid: str = field(init=False)
    """Space, name and digest in one word, as the profile itself says it; it costs a digest."""
    counts: frozenset[TotalKey] = field(init=False, repr=False, compare=False)
    """Counters that it may raise; each is a series in Prometheus from the registration on."""
    matches: Test | None = field(init=False, repr=False, compare=False)
    """Tells whether a span lets its trace be watched; None where none does by itself."""
    plan: Plan = field(init=False, repr=False, compare=False)
    """The plan that it judges by; without a judge, judge tasks are skipped."""
    scores: Mapping[str, ScoreTask] = field(init=False, repr=False, compare=False)
    """The scores from outside that it watches, by name."""
    without_judges: "RegisteredProfile | None" = field(init=False, repr=False, compare=False)
    """The same for derived records that judges do not see; None for a profile that takes
    no traces, or calls no judge."""
    asks: bool = True

    def __post_init__(self) -> None:
        profile = self.profile
        plan = profile.plan if self.asks else _plan_without_judges(profile)
        without_judges = None
        if self.asks and profile.takes_marks and profile.plan.asks:
            without_judges = replace(self, asks=False)
        object.__setattr__(self, "counts", frozenset(_counts(self.space, profile)))
        object.__setattr__(self, "plan", plan)
        object.__setattr__(self, "scores", {each.id: each for each in score_tasks(profile)})
        object.__setattr__(self, "uid", profile.uid)
        object.__setattr__(self, "matches", profile.watch and profile.watch.match.test)
        object.__setattr__(self, "without_judges", without_judges)

    def watches(self, trace_id: str) -> bool:
        """Tell whether a trace is among those that are evaluated, if it matches or is marked."""
        watch = self.profile.watch
        if watch is None:  # by its marks alone: as the queue of the marked process samples records
            return id_is_sampled(int(trace_id, 16), self.profile.config.sample_ratio)
        return watch.judges(trace_id)

    def of_record(self, row: RecordRow) -> "RegisteredProfile":
        """The profile for a record; for a derived one outside of the sample it has no judges."""
        if self.without_judges is None or not row.is_derived or row.trace_id is None:
            return self
        watch = self.profile.watch
        is_called = (
            is_sampled(row.trace_id, JUDGE_SAMPLE) if watch is None else watch.asks(row.trace_id)
        )
        return self if is_called else self.without_judges

    def of_session(self, rows: Iterable[RecordRow]) -> "RegisteredProfile":
        """The same for a session: one of derived records alone is sampled by its first trace."""
        every = tuple(rows)
        if self.without_judges is None or not all(row.is_derived for row in every):
            return self
        first = min(every, key=lambda row: (row.created_ns, row.uid), default=None)
        return self if first is None else self.of_record(first)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableProfile:
    """A stored profile that this version refuses, though an earlier one took it."""

    row: ProfileRow
    why: str


class AliasTakenError(ConfigError):
    """A profile of the same name and tasks is registered under another alias."""


class NoRoomError(ConfigError):
    """A space has as many profiles as it may."""


class Registration(NamedTuple):
    """A profile as it stands, and whether it was not known before."""

    profile: RegisteredProfile
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Bounds on the profiles that clients may register in one space; each is compiled in memory."""

    profiles: int = 1_000
    tasks: int = 20_000
    """Most tasks of all profiles together."""
    series: int = 10_000
    """Most series in Prometheus; versions with one name and alias share those of a task id."""
    bytes: int = 32 * 2**20
    """Most bytes of JSON of all profiles together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """The profiles of a space that judge traces without records."""

    active: tuple[RegisteredProfile, ...]
    """Profiles whose `watch` looks at every span."""
    marked: Mapping[str, RegisteredProfile]
    """Every version that takes marks, by the attribute that marks a span with it."""


class ProfileRegistry:
    """All registered profiles, from the store; any thread may ask.

    Args:
        store: Keeps registrations.
        room: Bounds what `add` takes.
        refused: Is called with the space of each profile for which there was no room.
        takes_all_scores: Let a score that no profile names have one of its own.
    """

    def __init__(
        self,
        store: Store,
        room: Room | None = None,
        refused: Callable[[str], None] = lambda space: None,
        *,
        takes_all_scores: bool = False,
    ) -> None:
        self._store, self._room, self._refused = store, room or Room(), refused
        self._takes_all_scores: Final = takes_all_scores
        self.has_news = False
        """True once it has registered a profile by itself; for whoever tells others to clear."""
        self._scoring: dict[tuple[str, str], list[RegisteredProfile]] = {}
        """Active profiles that name a score, by space and score."""
        self._without_place: set[str] = set()
        """Spaces whose log says that a score got no profile of its own."""
        self._first_scoring: dict[tuple[str, str], str] = {}
        """Alias that was the first to name a score, whether it is active or not."""
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], RegisteredProfile] = {}
        self._meant: dict[tuple[str, str], RegisteredProfile] = {}
        """By space and anything that a record may name a profile by."""
        self._changes: dict[tuple[str, str], list[ProfileChange]] = {}
        """Changes of profiles by their space and name, in the order of commits."""
        self._watching: dict[str, Watching] = {}
        self._unusable: dict[tuple[str, str], UnusableProfile] = {}
        self._seq = 0
        """The newest change that is known."""
        self.follow()

    def follow(self) -> bool:
        """Read what other processes have registered; says whether there was anything.

        Raises:
            TransientError: The store cannot be read now.
        """
        with self._lock:
            changes = self._store.profile_changes()
            if not changes or changes[-1].seq <= self._seq:
                return False
            found: list[RegisteredProfile] = []
            unusable: dict[tuple[str, str], UnusableProfile] = {}
            for row in self._store.profiles():
                try:
                    found.append(_read(row))
                except (ScouterError, ValueError) as error:
                    unusable[row.space, row.uid] = _unusable(row, error)
            self._unusable = unusable
            self._show({(each.space, each.uid): each for each in found})
            self._changes.clear()
            for change in changes:
                if (change.space, change.uid) in self._known:
                    self._note(change)
            self._seq = changes[-1].seq
            return True

    def register(
        self, space: str, profile: AgentEvalProfile, *, activate: bool
    ) -> RegisteredProfile:
        """Keep a profile; the same content again changes nothing.

        Args:
            space: Space of the profile.
            profile: The profile.
            activate: Make it the active version of its alias.

        Returns:
            The profile as it stands now.

        Raises:
            TransientError: The store cannot keep it now.
        """
        with self._lock:
            return self._keep(space, profile, activate=activate).profile

    def add(self, space: str, profile: AgentEvalProfile) -> Registration:
        """Keep a profile that came over the network; it is not activated by that.

        A known one takes over what is no part of its identity: version, description, alert.

        Args:
            space: Space of the profile.
            profile: The profile.

        Raises:
            AliasTakenError: It is known under another alias.
            NoRoomError: The space has too many profiles, or they are too large.
            TransientError: The store cannot keep it now.
        """
        with self._lock:
            before = self._known.get((space, profile.uid))
            if before is None or before.profile != profile:  # a known one may have become larger
                self._check_room(space, profile)
            if before is not None and before.profile.alias != profile.alias:
                raise AliasTakenError(
                    f"the profile {profile.name!r} with the same tasks is registered under the "
                    f"alias {before.profile.alias!r}; give this one another config.name"
                )
            return self._keep(space, profile, activate=False)

    def set_active(self, space: str, uid: str, *, is_active: bool) -> RegisteredProfile | None:
        """Make a registered profile the one that its alias means from now on, or none of them.

        Records that name a version go on being evaluated by it.

        Returns:
            The profile as it stands now; None if there is none.

        Raises:
            TransientError: The store cannot keep it now.
        """
        with self._lock:
            found = self._known.get((space, uid))
            if found is None or found.is_active is is_active:
                return found
            return self._write(replace(found, is_active=is_active))

    def unwatched(self, space: str | None = None) -> list[RegisteredProfile]:
        """Profiles whose alert watches nothing, as they are not active.

        A version that a later one of its alias took the place of is not among them.

        Args:
            space: All spaces if not given.
        """
        known = self._known.values()
        taken = {_meaning(each): each.registered_ns for each in known if each.is_active}
        found = (
            each
            for each in known
            if not each.is_active
            and each.profile.config.alert_config.alert_condition is not None
            and space in (None, each.space)
            and taken.get(_meaning(each), -1) < each.registered_ns
        )
        return sorted(found, key=_order)

    def _keep(self, space: str, profile: AgentEvalProfile, *, activate: bool) -> Registration:
        before = self._known.get((space, profile.uid))
        if before is not None and before.profile == profile and before.is_active >= activate:
            return Registration(before, is_new=False)
        found = RegisteredProfile(
            space=space,
            profile=profile,
            is_active=activate or (before is not None and before.is_active),
            registered_ns=time.time_ns() if before is None else before.registered_ns,
        )
        return Registration(self._write(found), is_new=before is None)

    def _write(self, found: RegisteredProfile) -> RegisteredProfile:
        """Store a profile as it is to stand, then show it."""
        profile = found.profile
        row = ProfileRow(
            space=found.space,
            uid=found.uid,
            digest=profile.digest,
            name=profile.name,
            alias=profile.alias,
            body=profile.model_dump_json(),
            registered_ns=found.registered_ns,
            is_active=found.is_active,
        )
        seq = self._store.append_profile(row)
        known = dict(self._known)
        if found.is_active:
            for key, each in self._known.items():
                if each.is_active and _meaning(each) == _meaning(found):
                    known[key] = replace(each, is_active=False)
        known[found.space, found.uid] = found
        self._show(known)
        change = ProfileChange(
            seq, row.space, row.uid, row.digest, row.name, row.alias, row.is_active
        )
        self._note(change)
        return found

    def _note(self, change: ProfileChange) -> None:
        """Keep what became of a profile."""
        for name in {change.uid, change.digest, change.name, change.alias}:
            self._changes.setdefault((change.space, name), []).append(change)

    def _show(self, known: dict[tuple[str, str], RegisteredProfile]) -> None:
        """Let readers see new profiles; the strongest name is put in last."""
        every = sorted(known.values(), key=_order, reverse=True)
        active = [each for each in every if each.is_active]
        meant = {(each.space, each.profile.name): each for each in active}
        meant |= {_meaning(each): each for each in active}
        meant |= {(each.space, each.profile.digest): each for each in every}
        meant |= {(each.space, each.profile.digest): each for each in active}
        self._known, self._meant = known, meant | known
        watching: dict[str, Watching] = {}
        for space in {each.space for each in every if each.profile.takes_marks}:
            own = [each for each in every if each.space == space]
            found = Watching(
                active=tuple(each for each in own if each.is_active and each.matches is not None),
                marked={ENTITY_PREFIX + each.uid: each for each in own if each.profile.takes_marks},
            )
            watching[space] = found
        self._watching = watching
        scoring: dict[tuple[str, str], list[RegisteredProfile]] = {}
        for each in sorted(active, key=_order):
            for name in each.scores:
                scoring.setdefault((each.space, name), []).append(each)
        first: dict[tuple[str, str], str] = {}
        for each in sorted(every, key=lambda each: (each.registered_ns, each.uid)):
            for name in each.scores:
                first.setdefault((each.space, name), each.profile.alias)
        self._scoring, self._first_scoring = scoring, first

    def is_first_scoring(self, each: RegisteredProfile, name: str) -> bool:
        """Tell whether no other alias named a score before a profile's did.

        Its records keep the uid of the score: one that is sent again counts once for each alias,
        whichever profiles were activated meanwhile.
        """
        alias = self._first_scoring.get((each.space, name.strip().lower()))
        return alias == each.profile.alias

    def scoring(
        self, space: str, name: str, ref: str | None = None, *, is_of_people: bool = False
    ) -> Sequence[RegisteredProfile]:
        """The profiles that watch a score.

        One that no profile names gets a profile of its own, called `score.NAME`, if a person gives
        it or all scores are taken.

        Args:
            space: Its space.
            name: Of the score.
            ref: The profile that its sender names; None for all that are active.
            is_of_people: A person gives it.

        Returns:
            Empty where nobody watches it, or 100 scores have a profile of their own.
        """
        name = name.strip().lower()
        if ref is not None:
            found = self.resolve(space, ref)
            return [found] if found is not None and name in found.scores else []
        known = self._scoring.get((space, name), [])
        if known or not (is_of_people or self._takes_all_scores):
            return known
        own = AgentEvalProfile([ScoreTask(name)], alias=_own_alias(name))
        there = self.get(space, own.uid)
        if there is not None:  # somebody has deactivated it
            return [there]
        with self._lock:
            if fault := self.lacks_place(space, [name]):
                self._refused(space)
                if space not in self._without_place:
                    self._without_place.add(space)
                    _log.warning("scores of the space %r are refused: %s", space, fault)
                return []
            found = self._keep(space, own, activate=True).profile
            if sum(self._own_scores(space).values()) == _NEARLY_ALL:
                _log.warning("space %r: %s", space, self.remarks(space))
        self.has_news = True
        return [found]

    def lacks_place(self, space: str, names: Iterable[str]) -> str:
        """Say why some scores cannot have a profile of their own; empty if each has one, or can.

        Args:
            space: Their space.
            names: Of scores; those that an active profile names need none.
        """
        keys = {each.strip().lower() for each in names}
        new = {_own_alias(each) for each in keys if not self._scoring.get((space, each))}
        own = self._own_scores(space) if new else {}
        more, taken = new - own.keys(), sum(own.values())
        if not more or taken + len(more) <= _OWN_SCORES:
            return ""
        return f"{min(more)!r} has no place: {taken} of {_PLACES}"

    def _own_scores(self, space: str) -> dict[str, bool]:
        """Profiles that scores of a space have for themselves, by alias, and which are active."""
        found = [each for each in self.all(space)[::-1] if _has_own_score(each)]  # active ones last
        return {each.profile.alias: each.is_active for each in found}

    def _check_room(self, space: str, profile: AgentEvalProfile) -> None:
        there = [
            each for each in self._known.values() if each.space == space and each.uid != profile.uid
        ]
        profiles = [*(each.profile for each in there), profile]
        series = frozenset(_counts(space, profile)).union(*(each.counts for each in there))
        for count, most, what in (
            (len(profiles), self._room.profiles, "profiles"),
            (sum(len(each.tasks) for each in profiles), self._room.tasks, "tasks of profiles"),
            (_series_of(series), self._room.series, "series of profiles in Prometheus"),
            (
                sum(len(each.model_dump_json()) for each in profiles),
                self._room.bytes,
                "bytes of profiles",
            ),
        ):
            if count > most:
                self._refused(space)
                message = f"the space {space!r} would have more than {most:,} {what}"
                _log.warning("profiles are refused: %s", message)
                raise NoRoomError(message)

    def all(self, space: str) -> list[RegisteredProfile]:
        """The profiles of a space, by alias, the active one of each alias first."""
        return sorted((each for each in self.everything() if each.space == space), key=_order)

    def unusable(self, space: str | None = None) -> list[UnusableProfile]:
        """Stored profiles that were refused at the start, of all spaces if none is given."""
        return [each for each in self._unusable.values() if space in (None, each.row.space)]

    def remarks(self, space: str) -> str:
        """Say which profiles of a space cannot be used, and why, and which bound is near."""
        found = [
            f"digest {each.row.digest[:12]} cannot be used any more: {each.why}"
            for each in self.unusable(space)
        ]
        if (count := sum(self._own_scores(space).values())) >= _NEARLY_ALL:
            found.append(f"{count} of {_PLACES}")
        return "; ".join(found)

    def why_unusable(self, record: RecordRow) -> str:
        """Say why the profile that a record means cannot be used; empty if it is another thing."""
        for each in self.unusable(record.space):
            row = each.row
            names = {row.uid, row.digest, *((row.alias, row.name) if row.is_active else ())}
            if row.uid == record.profile_uid or record.profile_ref in names:
                return each.why
        return ""

    def everything(self) -> list[RegisteredProfile]:
        """The profiles of all spaces."""
        return list(self._known.values())

    def totals(self, spaces: Iterable[str]) -> Totals:
        """The store's totals, with a zero for everything that spaces and profiles may count."""
        found: dict[TotalKey, int] = {}
        for space in spaces:
            found[TotalKey(TotalName.SPANS_RECEIVED, space)] = 0
            found[TotalKey(TotalName.EVENTS_RECEIVED, space)] = 0
            found[TotalKey(TotalName.PENDING, space)] = 0
            for kind in RECEIVED:
                found[TotalKey(TotalName.DUPLICATES, space, label=kind)] = 0
                found[TotalKey(TotalName.LOST, space, label=kind)] = 0
        for each in self.everything():
            found |= dict.fromkeys(each.counts, 0)
        return {**found, **self._store.totals()}

    def watching(self, space: str) -> "Watching | None":
        """The profiles of a space that judge traces without records; None if none does."""
        return self._watching.get(space)

    def watching_spaces(self) -> frozenset[str]:
        """The spaces with such profiles."""
        return frozenset(self._watching)

    def changed_at(self, registered: RegisteredProfile) -> int:
        """The commit that made a profile what it is now."""
        changes = self._changes.get((registered.space, registered.uid), ())
        return max((each.seq for each in changes if each.uid == registered.uid), default=0)

    def get(self, space: str, uid: str) -> RegisteredProfile | None:
        """The profile with this uid."""
        return self._known.get((space, uid))

    def with_sessions(self) -> list[RegisteredProfile]:
        """The profiles of all spaces that have session-scoped tasks."""
        return [each for each in self._known.values() if each.profile.plan.session is not None]

    def of_record(self, row: RecordRow) -> RegisteredProfile | None:
        """The profile that judges an accepted record: what its sender meant at that time.

        Where that was none, it is the first one that the name means since, whichever is activated
        later: the record keeps its judge, and its place in a session.
        """
        uid = row.profile_uid or self._first_meant(row)
        return None if uid is None else self.get(row.space, uid)

    def _first_meant(self, row: RecordRow) -> str | None:
        """Find the profile that a record means, as of its commit or of the next change."""
        found: str | None = None
        for change in self._changes.get((row.space, row.profile_ref), ()):
            if found is not None and row.seq and change.seq > row.seq:
                break  # one without a commit yet came behind all changes
            if change.is_active or row.profile_ref in (change.uid, change.digest):
                found = change.uid
            elif change.uid == found:
                found = None
        return found

    def resolve(self, space: str, ref: str) -> RegisteredProfile | None:
        """Find what a record means by its profile.

        Args:
            space: The record's space.
            ref: A digest or uid (any registered version), or an alias or name (the active one).

        Returns:
            The profile; where several aliases share a digest, an active one. None if there is
            none.
        """
        return self._meant.get((space, ref))


_OWN_ALIAS: Final = "score."
_OWN_SCORES: Final = 100
"""Scores of a space that get an active profile of their own: names come from whoever sends."""
_NEARLY_ALL: Final = 90
"""From so many on people are notified."""
_PLACES: Final = (
    f"{_OWN_SCORES} profiles are taken that a space has for scores that no other profile names; "
    "deactivate those that nobody wants (`scouter profile deactivate`), or write those that you "
    "want under `scores` of an active profile, which may name any number"
)


def _own_alias(name: str) -> str:
    return f"{_OWN_ALIAS}{name}"[:128]


def _has_own_score(each: RegisteredProfile) -> bool:
    return each.profile.alias.startswith(_OWN_ALIAS) and len(each.scores) == 1


def score_tasks(profile: AgentEvalProfile) -> list[ScoreTask]:
    """The scores from outside that a profile watches."""
    return [each for each in profile.tasks if isinstance(each, ScoreTask)]


def _counts(space: str, profile: AgentEvalProfile) -> Iterator[TotalKey]:
    """The counts of a profile that are shown at zero, before it has evaluated anything."""
    names = {"profile": profile.name, "alias": profile.alias}
    yield TotalKey(TotalName.RECORDS_RECEIVED, space, **names)
    yield TotalKey(TotalName.INCOMPLETE, space, **names)
    plan = profile.plan
    for task in score_tasks(profile):
        for outcome in DECIDED:
            yield TotalKey(TotalName.TASKS, space, **names, task=task.id, label=outcome.value)
    for name, part in ((TotalName.RECORDS, plan), (TotalName.SESSIONS, plan.session)):
        if part is None:
            continue
        for outcome in Outcome if part.has_judges else DECIDED:
            yield TotalKey(name, space, **names, label=outcome.value)
            for task in part.tasks:
                yield TotalKey(TotalName.TASKS, space, **names, task=task.id, label=outcome.value)


def _series_of(keys: Iterable[TotalKey]) -> int:
    """Series in Prometheus of these counts: a task's outcomes count as evaluated and as final."""
    return sum(
        2 if key.name is TotalName.TASKS and key.label != Outcome.PENDING else 1 for key in keys
    )


def _plan_without_judges(profile: AgentEvalProfile) -> Plan:
    """The plan with judge tasks that judge nothing, but for those with a sample of their own."""
    plan = compile_plan(
        task.model_copy(update={"sample_rate": 0.0})
        if isinstance(task, LLMJudgeTask | ReportTask | TrajectoryTask | JourneyTask)
        and task.judge_prompt is not None
        and task.sample_rate == 1.0
        else task
        for task in profile.tasks
    )
    return plan


def _meaning(each: RegisteredProfile) -> tuple[str, str]:
    return each.space, each.profile.alias


def _order(each: RegisteredProfile) -> tuple[str, bool, int]:
    return each.profile.alias, not each.is_active, -each.registered_ns


def _unusable(row: ProfileRow, error: Exception) -> UnusableProfile:
    why = first_problem(error)[1] if isinstance(error, ValidationError) else str(error)
    _log.warning(
        "profile %r of the space %r, digest %.12s, cannot be used any more; its records wait for "
        "one that can, until their deadline: %s",
        row.alias, row.space, row.digest, why,
    )  # fmt: skip
    return UnusableProfile(row=row, why=why)


def _read(row: ProfileRow) -> RegisteredProfile:
    return RegisteredProfile(
        space=row.space,
        profile=AgentEvalProfile.model_validate_json(row.body),
        is_active=row.is_active,
        registered_ns=row.registered_ns,
    )
