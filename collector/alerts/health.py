"""The watcher is watched: what keeps results from being made, or from being complete.

Evaluation that stopped without a word is the commonest fault of such services. Each minute the
store is searched for what should not be; a finding is an alert for as long as it holds.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from collector.alerts.alert import Finding, Trouble, TroubleKey, moment
from collector.alerts.troubles import (
    FEWEST,
    HOUR_NS,
    Counted,
    counted,
    errored_profiles,
    silent_hours,
    too_many,
)
from collector.store.alerts import DriftState
from collector.store.store import Store

HEALTH: Final = "health"
"""Name of the state of `HealthWatch`; a group's name is JSON, so that none has this one."""
_S: Final = 10**9
LOOK_NS: Final = 60 * _S
"""Between two looks."""
CALM_NS: Final = 300 * _S
"""A finding is over once it was not found for so long, so that none comes and goes."""
SAMPLE_NS: Final = 300 * _S
"""Between two counts that are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    finding: Finding
    last_ns: int
    """Time at which it was found last."""


class HealthWatch:
    """See the module.

    Args:
        store: Store that is searched; it stores counts of the last hour, so that they outlast the
            process.
        active: Gives space and alias of every active profile.
        patience_ns: A record without an evaluation is reported after so long; a task without
            its judge after an hour.
        proven: Gives space and alias of every profile whose errors a detector tells of already.
        behind: By space in which something that is due has waited for too long, how much and why.
    """

    def __init__(
        self,
        store: Store,
        active: Callable[[], set[tuple[str, str]]],
        patience_ns: int,
        proven: Callable[[], set[tuple[str, str]]] = set,
        behind: Callable[[], Mapping[str, str]] = dict[str, str],
    ) -> None:
        self._store, self._active, self._patience_ns = store, active, patience_ns
        self._proven, self._behind = proven, behind
        self._samples: deque[tuple[int, Counted]] = deque()
        self._seen: Mapping[TroubleKey, _Seen] = {}
        self._silent: list[Finding] = []
        self._hour = -1
        self.looked_ns: int | None = None
        """Time of the last look; None before the first one."""

    def findings(self, space: str | None = None) -> list[Finding]:
        """Findings of the last look, of a space or of all."""
        return [each.finding for each in self._seen.values() if space in (None, each.finding.space)]

    def look(self, now_ns: int) -> list[Finding]:
        """Look again, if a minute has passed.

        Returns:
            All that is found now, or was within five minutes.

        Raises:
            TransientError: The store cannot be read or written now.
        """
        if self.looked_ns is None:
            self.load()
        elif self.looked_ns <= now_ns < self.looked_ns + LOOK_NS:
            return self.findings()
        is_sampled = self._sample(now_ns)
        found = {each.key: each for each in self._look(now_ns)}
        seen = {
            key: each for key, each in self._seen.items()
            if key not in found and each.last_ns <= now_ns < each.last_ns + CALM_NS
        }  # fmt: skip
        for key, finding in found.items():
            if key in self._seen:  # as old as it was
                finding = replace(finding, since_ns=self._seen[key].finding.since_ns)
            seen[key] = _Seen(finding=finding, last_ns=now_ns)
        has_changed = seen.keys() != self._seen.keys()
        self._seen, self.looked_ns = seen, now_ns
        if is_sampled or has_changed:
            self._save()
        return self.findings()

    def _look(self, now_ns: int) -> Iterator[Finding]:
        waiting = list(self._old(now_ns))
        yield from waiting
        for space, message in self._behind().items():
            yield Finding(space=space, trouble=Trouble.BEHIND, since_ns=now_ns, message=message)
        yield from self._pending(now_ns)
        yield from self._increased(now_ns)
        hour = now_ns // HOUR_NS
        if hour != self._hour:
            self._silent = list(self._quiet(hour * HOUR_NS, now_ns))
            self._hour = hour
        # Where records wait for their evaluation, silence has the same cause: one alert is enough.
        stuck = {each.space for each in waiting}
        yield from (each for each in self._silent if each.space not in stuck)

    def _old(self, now_ns: int) -> Iterator[Finding]:
        """Spaces in which a record waits for its evaluation for too long."""
        before_ns = now_ns - self._patience_ns
        first_ns = self._store.waiting_since_ns()
        if first_ns is None or first_ns >= before_ns:
            return
        for each in self._store.waiting_spaces():
            if each.since_ns < before_ns:
                yield Finding(
                    space=each.space, trouble=Trouble.NOT_EVALUATED, since_ns=now_ns,
                    message=f"{each.waiting:,} records wait for an evaluation, the oldest since "
                    f"{moment(each.since_ns)}; scouter results record {each.uid} says why",
                )  # fmt: skip

    def _pending(self, now_ns: int) -> Iterator[Finding]:
        """Spaces in which a task waits for its judge for too long."""
        before_ns = now_ns - HOUR_NS
        first = self._store.pending_evaluations(1)  # the oldest of all spaces
        if not any(each.evaluation.evaluated_ns < before_ns for each in first):
            return
        for each in self._store.pending_spaces():
            if each.since_ns < before_ns:
                yield Finding(
                    space=each.space, trouble=Trouble.JUDGE_WAITS, since_ns=now_ns,
                    message=f"{each.waiting:,} tasks wait for a judge, the oldest since "
                    f"{moment(each.since_ns)}; scouter results record {each.uid} says why",
                )  # fmt: skip

    def _sample(self, now_ns: int) -> bool:
        """Keep the counts of now, every five minutes, and those of an hour ago; True if it did."""
        while self._samples and self._samples[-1][0] > now_ns:  # of a clock that was ahead
            self._samples.pop()
        while len(self._samples) > 1 and self._samples[1][0] <= now_ns - HOUR_NS:
            self._samples.popleft()
        if self._samples and now_ns < self._samples[-1][0] + SAMPLE_NS:
            return False
        self._samples.append((now_ns, counted(self._store.totals())))
        return True

    def _increased(self, now_ns: int) -> Iterator[Finding]:
        """Counts that grew within the last hour."""
        before, now = self._samples[0][1], counted(self._store.totals())
        increased = Counted({key: count - before[key] for key, count in now.items()})
        proven = self._proven()
        for space in sorted({space for space, _ in increased}):
            many = list(too_many(space, increased, now_ns))
            yield from many
            if increased[space, Trouble.ERRORED.value] >= FEWEST:
                is_reported = any(each.trouble is Trouble.INCOMPLETE for each in many)
                found = errored_profiles(
                    self._store, space, now_ns - HOUR_NS, now_ns, is_incomplete_reported=is_reported
                )
                yield from (each for each in found if (space, each.subject) not in proven)

    def _quiet(self, end_ns: int, now_ns: int) -> Iterator[Finding]:
        """Active profiles that were silent in the last whole hour."""
        active = self._active()
        for space in sorted({space for space, _ in active}):
            for alias, usual in sorted(silent_hours(self._store, space, end_ns).items()):
                if (space, alias) in active:
                    yield Finding(
                        space=space, trouble=Trouble.SILENT, subject=alias, since_ns=now_ns,
                        message=f"profile {alias!r} had no result to speak of in the hour before "
                        f"{moment(end_ns)}, which mostly has {usual:,.0f}; see whether the agent "
                        "runs and its records arrive",
                    )  # fmt: skip

    # --- what outlasts the process ----------------------------------------------------------

    def load(self) -> None:
        """Take up what was found last, here or by another process.

        Raises:
            TransientError: The store cannot be read now.
        """
        bodies = [each.body for each in self._store.drift_states() if each.name == HEALTH]
        for state in map(json.loads, bodies):
            self._samples = deque(
                (at_ns, Counted({(space, name): count for space, name, count in counts}))
                for at_ns, counts in state["samples"]
            )
            seen = [_Seen(finding=_finding(each), last_ns=at_ns) for each, at_ns in state["held"]]
            self._seen = {each.finding.key: each for each in seen}

    def _save(self) -> None:
        state = {
            "samples": [
                [at_ns, [[*key, count] for key, count in counts.items()]]
                for at_ns, counts in self._samples
            ],
            "held": [
                [
                    [each.finding.space, each.finding.trouble.value, each.finding.subject,
                     each.finding.message, each.finding.since_ns],
                    each.last_ns,
                ]
                for each in self._seen.values()
            ],
        }  # fmt: skip
        self._store.save_drift([DriftState(name=HEALTH, body=json.dumps(state))], [])


def _finding(state: list[Any]) -> Finding:
    space, trouble, subject, message, since_ns = state
    return Finding(
        space=space, trouble=Trouble(trouble), subject=subject, message=message, since_ns=since_ns
    )
