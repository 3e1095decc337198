"""History as it stands in a data folder that no collector has open."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from collector.store.decided import ChangeQuery, ChangeReads, DecidedQuery, DecidedReads
from collector.store.files import OfflineReads
from collector.store.profiles import Profiles
from collector.store.usage import UsageGroup, UsageQuery, UsageReads
from scouter.drift.history.replay import KnownProfile, Mix, Period
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.observed import BEFORE_ALL, Observed
from scouter.drift.series.series import SeriesKey
from scouter.drift.series.series_set import results_of
from scouter.evaluate.statistics.explained import Origin, explain_results

_PAGE: Final = 10_000


class _History(OfflineReads, DecidedReads, ChangeReads, UsageReads, Profiles):
    """Parts that history is made of."""


class StoredHistory:
    """Reads a data folder; see `scouter.drift.history.replay.History`.

    Args:
        folder: The data folder of a collector.
        space: Space of the results.

    Raises:
        ConfigError: There is no store, a collector has it open, or another version wrote it.
    """

    def __init__(self, folder: Path, space: str) -> None:
        self._store, self._space = _History(folder), space

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._store.__exit__(kind, error, traceback)

    def profiles(self) -> Mapping[str, KnownProfile]:
        """Every version of every profile, by uid."""
        return {
            row.uid: KnownProfile.of(row.alias, row.digest, _profile(row.body))
            for row in self._store.profiles()
            if row.space == self._space
        }

    def results(self, period: Period) -> Iterator[Observed]:
        """First final results, in the order of completion; backfills as if in their time."""
        query = DecidedQuery(
            space=self._space, profile=period.profile, since_ns=period.since_ns,
            until_ns=period.until_ns,
        )  # fmt: skip
        place = BEFORE_ALL
        slices = {each for known in self.profiles().values() for each in known.stated.slices}
        while page := self._store.decided_after(place, _PAGE, query, slices=slices):
            yield from (replace(each, is_backfill=False) for each in page)
            place = page[-1].place

    def explain(self, key: SeriesKey, since_ns: int) -> Origin | None:
        """Origin of a series' change at a moment."""
        service, environment = results_of(key.agent)
        query = ChangeQuery(
            space=self._space, profile_uid=key.profile_uid, task=key.task, since_ns=since_ns,
            service=service, environment=environment,
        )  # fmt: skip
        found = explain_results(*self._store.results_around(query), is_open=False)
        return None if found is None else found.origin

    def calls(self, mix: Mix, since_ns: int | None, until_ns: int | None) -> Mapping[str, int]:
        """Calls of a time by name; the thousand names with the most."""
        query = UsageQuery(
            space=self._space,
            group_by=UsageGroup(mix.value),
            since_ns=since_ns,
            until_ns=until_ns,
        )
        return {each.key or "": each.calls for each in self._store.usage(query).items}


def _profile(body: str) -> AgentEvalProfile | None:
    try:
        return AgentEvalProfile.model_validate_json(body)
    except ValueError:
        return None  # a collector cannot use it either, and judges nothing by it
