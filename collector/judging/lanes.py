"""Lanes: what waits for one provider does not wait for another."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from collector.judging.inquiry import EvaluationKey
from collector.store.rows import FIRST_RESULT, PendingEvaluation, ResultPlace
from collector.worker.profiles import ProfileRegistry
from scouter.drift.profile import AgentEvalProfile

LAST_ORDINAL: Final = 2**31 - 1


class Lane:
    """The evaluations of all profiles whose judges ask the same provider entries.

    Each set of entries has a lane, and not each entry: of two lanes none waits for an entry that
    only the other one asks.

    Args:
        entries: Names; what a profile calls beside them is nobody's.
        is_rest: It is for evaluations of profiles that nobody knows any more.
    """

    def __init__(self, entries: frozenset[str], *, is_rest: bool = False) -> None:
        self.entries, self.is_rest = entries, is_rest
        self.profiles: set[str] = set()
        """Uids; of the rest, those that are not its own."""
        self.place: ResultPlace = FIRST_RESULT
        """Up to where its evaluations were read."""
        self.inside: dict[EvaluationKey, int] = {}
        """Evaluations with questions on their way, and the size of their contexts in bytes."""
        self.ended: set[EvaluationKey] = set()
        """Evaluations that were stored since the reading of the present page began."""
        self.is_reading = False
        self.news, self.left = asyncio.Event(), asyncio.Event()

    @property
    def bytes(self) -> int:
        """Contexts in memory."""
        return sum(self.inside.values())


class Lanes:
    """All lanes of a collector.

    Args:
        registry: The profiles that make evaluations.
        name_of: The name of the entry that a prompt means; None if there is none.
        most: Evaluations of one lane that are sent at a time.
        most_bytes: Contexts of all of them in memory. Beside what the others take, a lane takes
            at most as much as it leaves free, so that one that hangs leaves room for others; of
            each lane one evaluation is there, however large.
    """

    def __init__(
        self,
        registry: ProfileRegistry,
        name_of: Callable[[str], str | None],
        most: int,
        most_bytes: int,
    ) -> None:
        self._registry, self._name_of = registry, name_of
        self.most, self._most_bytes = most, most_bytes
        self._rest = Lane(frozenset(), is_rest=True)
        self._known: set[str] = set()
        self._by_entries: dict[frozenset[str], Lane] = {}

    @property
    def all(self) -> Sequence[Lane]:
        """Every lane that there is by now."""
        return [*self._by_entries.values(), self._rest]

    def follow(self) -> Sequence[Lane]:
        """Look for profiles that were registered since, and give the lanes that are new."""
        before = set(self._by_entries)
        for each in self._registry.everything():
            profile = each.profile
            if profile.uid not in self._known:
                self._known.add(profile.uid)
                entries = frozenset(self._entries(profile))
                if entries:
                    lane = self._by_entries.setdefault(entries, Lane(entries))
                    lane.profiles.add(profile.uid)
                    self._rest.profiles.add(profile.uid)
        return [lane for entries, lane in self._by_entries.items() if entries not in before]

    def _entries(self, profile: AgentEvalProfile) -> Iterable[str]:
        for task in profile.tasks:
            if (prompt := task.judge_prompt) is not None:
                yield self._name_of(str(prompt.provider)) or ""

    def is_full(self, lane: Lane) -> bool:
        """Say whether reading on has to wait for evaluations to leave."""
        if not lane.inside:
            return False
        return len(lane.inside) > self.most // 2 or lane.bytes > self._free // 2

    @property
    def _free(self) -> int:
        return self._most_bytes - sum(lane.bytes for lane in self.all)

    def fitting(self, lane: Lane, page: Sequence[PendingEvaluation]) -> Sequence[PendingEvaluation]:
        """The first ones, as far as their contexts fit into memory beside what is there."""
        taken, free = lane.bytes, self._free
        for count, each in enumerate(page):
            taken, free = taken + each.context_bytes, free - each.context_bytes
            if taken > free and (count or lane.inside):
                return page[:count]
        return page
