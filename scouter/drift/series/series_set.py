"""All series of a collector: the stream of final results in, falls and recoveries out.

Results come in the order of completion and are taken in that of creation. The state is a function
of the results up to `place`, and of the calls that gave the time and what is decided. So who keeps
the groups that changed together with `place`, and goes on behind it after a crash, neither loses
nor doubles evidence.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from scouter.drift.detect.detector import ALPHA
from scouter.drift.series.group import Group, Pace, Turn
from scouter.drift.series.observed import BEFORE_ALL, Name, Observed, Place
from scouter.drift.series.reference import NOTHING, Stated
from scouter.drift.series.series import Agent, Series, SeriesKey

MOST_VERSIONS: Final = 20
"""Versions of one agent that are followed; beyond, the one that is silent for longest goes."""
_AHEAD_NS: Final = 600 * 10**9
"""A result may tell of a time a little back; only a clock that was wrong goes back by more."""
MOST_AGENTS: Final = 50
"""Services and environments of one profile that have series of their own."""
OTHERS: Final = Agent("(other)")
"""Stands for all beyond."""


class GroupKey(NamedTuple):
    """The name of a group."""

    space: str
    profile_uid: str
    agent: Agent


def line_of(key: GroupKey) -> tuple[str, ...]:
    """Name what all versions of one agent under one profile have in common."""
    return (key.space, key.profile_uid, *key.agent[:2])


def results_of(agent: Agent) -> tuple[str | None, str | None]:
    """Service and environment by which the results of an agent are found; None for any.

    Those that share the series of `OTHERS` have none in common.
    """
    return (None, None) if agent == OTHERS else (agent.service, agent.environment)


class SeriesSet:
    """See the module.

    Args:
        alpha: Of each series.
        pace: When a conversation is complete.
        stated_of: Tells what is stated about the tasks of a profile by space and uid; called when
            a group begins.
        run_length: See `Series`; for groups that begin from now on.
        make: Begins a series, with the arguments of `Series`; a replay keeps its outcomes, too.
    """

    def __init__(
        self,
        alpha: float = ALPHA,
        pace: Pace = Pace(60 * 10**9, 3_600 * 10**9),  # noqa: B008 a tuple
        stated_of: Callable[[str, str], Stated] = lambda space, profile_uid: NOTHING,
        run_length: float | None = None,
        make: Callable[..., Series] = Series,
    ) -> None:
        self.place: Place = BEFORE_ALL
        """The last result that was taken."""
        self.now_ns = 0
        """The latest time that came; it goes back only where a clock was set back by far."""
        self.groups: dict[GroupKey, Group] = {}
        self._of_profile: dict[tuple[str, str], dict[GroupKey, Group]] = {}
        """The same groups by space and profile: a first result looks at those of its own."""
        self.changed: set[GroupKey] = set()
        """Groups that are not, or no longer, as they were stored last; for the caller to clear."""
        self._undecided: Mapping[tuple[str, str], int] | None = {}
        self._decided_ns: float = math.inf
        self._started = 0
        self._alpha, self._pace, self._stated_of = alpha, pace, stated_of
        self._run_length, self._make = run_length, make

    def take(self, observed: Observed) -> list[Turn]:
        """Take the next result; one that was taken before changes nothing.

        Returns:
            Each series that fell or recovered, in order.
        """
        if observed.place <= self.place:
            return []
        self.place = observed.place
        self.now_ns = max(self.now_ns, observed.at_ns)
        if observed.is_backfill and self._is_behind(observed):
            return []
        group = self._group_of(observed)
        self.changed.add(GroupKey(group.space, group.profile_uid, group.agent))
        limit_ns = self._limit_of(group)
        return list(group.take(observed, self.now_ns, self._pace, limit_ns))

    def decided(
        self, undecided: Mapping[tuple[str, str], int] | None, otherwise_ns: float = math.inf
    ) -> None:
        """Say which records are decided, so that what was created after others waits for those.

        Args:
            undecided: By space and profile the creation of the first record that is not decided;
                None where it is not known, so that everything waits.
            otherwise_ns: Of other profiles everything is decided that was created before.
        """
        self._undecided, self._decided_ns = undecided, otherwise_ns

    def _limit_of(self, group: Group) -> float:
        if self._undecided is None:
            return -math.inf
        return self._undecided.get((group.space, group.profile_uid), self._decided_ns)

    @property
    def has_early(self) -> bool:
        """True if something is known that waits for what was created earlier."""
        return any(group.waiting[1] for group in self.groups.values())

    def advance(self, now_ns: int) -> list[Turn]:
        """Tell the time, so that quiet conversations are taken.

        A clock that was ahead by more than ten minutes and is right again is followed: open
        conversations would else wait until time has caught up.

        Returns:
            Each series that fell or recovered, in order.
        """
        if now_ns < self.now_ns - _AHEAD_NS:
            self.now_ns = now_ns
            for key, group in self.groups.items():
                if group.set_back(now_ns):
                    self.changed.add(key)
        self.now_ns = max(self.now_ns, now_ns)
        turns: list[Turn] = []
        for key, group in self.groups.items():
            before = group.waiting
            turns += group.advance(self.now_ns, self._pace, self._limit_of(group))
            if group.waiting != before:
                self.changed.add(key)
        return turns

    def restate(self) -> None:
        """Ask again what is stated; it holds for series to come, and for those that still learn."""
        for key, group in self.groups.items():
            if group.restate(self._stated_of(group.space, group.profile_uid)):
                self.changed.add(key)

    def series(self) -> Iterator[Series]:
        """All series."""
        for group in self.groups.values():
            yield from group.series.values()

    def find(self, key: SeriesKey) -> Series | None:
        """The series of this name; None where it has no result, or is followed no longer."""
        group = self.groups.get(GroupKey(*key[:3]))
        return None if group is None else group.series.get(Name(*key[3:]))

    def restart(self, key: SeriesKey, *, accept: bool) -> None:
        """Gather evidence anew in a series, if there is one of this name.

        Scores of what was created up to now are left out.

        Args:
            key: Its name.
            accept: Take what comes from now on for healthy.
        """
        series, at, name = self.find(key), GroupKey(*key[:3]), Name(*key[3:])
        if series is None:
            return
        group = self.groups[at]
        if accept:
            group.accept(name)
        else:
            series.restart()
        group.fresh_ns[name] = self.now_ns
        self.changed.add(at)

    def remove(self, key: GroupKey) -> None:
        """Follow a group no longer."""
        gone = self.groups.pop(key)
        self.changed.add(key)
        rest = self._of_profile[key[:2]]
        del rest[key]
        if not rest:
            del self._of_profile[key[:2]]
        for group in rest.values():
            if group.before is gone:
                group.before = None

    def newest(self) -> Mapping[tuple[str, ...], Group]:
        """The group that began last of each agent, by `line_of` the names of its groups."""
        found: dict[tuple[str, ...], Group] = {}
        for key, group in self.groups.items():
            line = line_of(key)
            if line not in found or found[line].number < group.number:
                found[line] = group
        return found

    def latest(self) -> list[Group]:
        """The group with the newest result of each agent, the newest of all last.

        A profile may judge several services and environments side by side.
        """
        found: dict[tuple[str, ...], Group] = {}
        for key, group in self.groups.items():
            line = line_of(key)
            if line not in found or found[line].last_ns <= group.last_ns:
                found[line] = group
        return sorted(found.values(), key=lambda group: group.last_ns)

    def _is_behind(self, observed: Observed) -> bool:
        """Tell whether a backfill is of a version that ran before those that are followed."""
        key = GroupKey(observed.space, observed.profile_uid, observed.agent)
        of_profile = self._of_profile.get(key[:2], {}).values()
        return key not in self.groups and any(
            group.last_ns and group.agent[:2] == key.agent[:2] for group in of_profile
        )

    def _group_of(self, observed: Observed) -> Group:
        key = GroupKey(observed.space, observed.profile_uid, observed.agent)
        found = self.groups.get(key)
        return self._begin(key) if found is None else found

    def _begin(self, key: GroupKey) -> Group:
        """Begin a group behind the one of the same agent that began last.

        Cost: linear in the groups of the profile, of which there are some thousand at most.
        """
        of_profile = self._of_profile.get(key[:2], {}).values()
        lines = {group.agent[:2] for group in of_profile}
        if key.agent[:2] not in lines and len(lines) >= MOST_AGENTS:
            key = key._replace(agent=OTHERS)
            if key in self.groups:
                return self.groups[key]
        line = [group for group in of_profile if group.agent[:2] == key.agent[:2]]
        before = max(line, key=lambda group: group.number, default=None)
        stated = self._stated_of(key.space, key.profile_uid)
        named = [each for each in line if each.agent.version == stated.version != ""]
        earlier = named[0] if named else before
        group = Group(
            *key, self._alpha, stated, earlier, self._started, self._run_length, make=self._make
        )
        self._started += 1
        self._add(key, group)
        if len(line) >= MOST_VERSIONS:
            rest = [each for each in line if each is not before and each not in named]
            silent = min(rest, key=lambda each: each.last_ns)
            self.remove(GroupKey(silent.space, silent.profile_uid, silent.agent))
        return group

    def _add(self, key: GroupKey, group: Group) -> None:
        self.groups[key] = group
        self._of_profile.setdefault(key[:2], {})[key] = group

    def to_json(self) -> dict[str, Any]:
        """All but the groups, which are stored one by one."""
        return {"place": self.place, "now_ns": self.now_ns, "begun": self._started}

    def restore(self, state: Mapping[str, Any], groups: Iterable[dict[str, Any]]) -> None:
        """Go on from stored states of the set and of all its groups, in any order."""
        self.place, self.now_ns = Place(*state["place"]), state["now_ns"]
        self._started = state["begun"]
        found = sorted(
            ((Group.from_json(each), each["before"]) for each in groups),
            key=lambda pair: pair[0].number,
        )
        numbered = {group.number: group for group, _ in found}
        self.groups, self._of_profile = {}, {}
        for group, before in found:
            self._add(GroupKey(group.space, group.profile_uid, group.agent), group)
            group.before = numbered.get(before)
        self.changed.clear()
