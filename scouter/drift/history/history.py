"""Stored history, wherever it is read from: a collector that runs, or its data folder."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from scouter.drift.detect.slices import Slice
from scouter.drift.level import stated_by
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.observed import Observed
from scouter.drift.series.series import SeriesKey
from scouter.drift.series.stated import NOTHING, Stated
from scouter.drift.series.yardstick import Yardstick, yardsticks


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProfile:
    """One version of a profile."""

    alias: str
    digest: str
    stated: Stated
    """References that it states."""
    yardsticks: Mapping[str, Yardstick]
    """Numbers that it has watched, by task."""

    @staticmethod
    def of(alias: str, digest: str, profile: AgentEvalProfile | None) -> "KnownProfile":
        """Take what matters of a profile; None for one that this version cannot read."""
        if profile is None:
            return KnownProfile(alias=alias, digest=digest, stated=NOTHING, yardsticks={})
        return KnownProfile(
            alias=alias, digest=digest, stated=stated_by(profile),
            yardsticks=yardsticks(profile.tasks),
        )  # fmt: skip


class Mix(StrEnum):
    """Names that calls are counted by; of a route its traces."""

    TOOL = "tool"
    MODEL = "model"
    AGENT = "agent"
    ROUTE = "route"
    FINISH_REASON = "finish_reason"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The part of history that is read.

    Args:
        profile: Alias, name, uid or digest; None for all.
        since_ns: Results from then on; None for all.
        until_ns: Results before.
    """

    profile: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None


class History(Protocol):
    """See the module."""

    def profiles(self) -> Mapping[str, KnownProfile]:
        """Every version of every profile, by uid."""
        ...

    def results(self, period: Period) -> Iterator[Observed]:
        """First final results, in the order of completion."""
        ...

    def slices(self, key: SeriesKey, since_ns: int) -> tuple[Sequence[Slice], int]:
        """Passes and fails of a series by tag, tool and model, before and since a moment.

        Returns:
            The slices, and the results since the moment that were looked at.
        """
        ...

    def calls(self, mix: Mix, since_ns: int | None, until_ns: int | None) -> Mapping[str, int]:
        """Calls of a time by name.

        Names are of tools, models, agents, routes, finish reasons or kinds of errors.
        """
        ...
