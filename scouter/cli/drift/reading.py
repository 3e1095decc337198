"""The options of both commands: the history that they read, and how it is replayed."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from scouter.cli.asking import connect
from scouter.errors import ConfigError

if TYPE_CHECKING:
    from scouter.drift.history.replay import History, KnownProfile, Period, Recorder
    from scouter.drift.series.causes import Cause
    from scouter.drift.series.series import SeriesKey

_GROUP: Final = "scouter.history"
"""Entry points of this group read a data folder."""
_NS: Final = 10**9

Data: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Read this data folder, of a collector that does not run, instead."
    ),
]
Space: TypeAlias = Annotated[
    str, typer.Option(metavar="SPACE", help="Of the data folder; a token has its own.")
]
Alpha: TypeAlias = Annotated[
    float, typer.Option(min=1e-6, max=0.5, help="Chance of a false alarm of each series, ever.")
]
Quiet: TypeAlias = Annotated[
    float, typer.Option("--session-quiet-s", min=0, help="As the collector's setting.")
]
Deadline: TypeAlias = Annotated[
    float, typer.Option("--session-deadline-s", min=0, help="As the collector's setting.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The place that history is read from."""

    data: Path | None
    space: str
    url: str | None
    token_file: Path | None

    @contextmanager
    def open(self) -> "Generator[History]":
        """Open it.

        Raises:
            ConfigError: Both a folder and an address are given, or one of them cannot be read.
        """
        if self.data is None:
            from scouter.cli.drift.over_http import HttpHistory

            with connect(self.url, self.token_file) as client:
                yield HttpHistory(client)
            return
        if self.url is not None:
            raise ConfigError("--data and --url: give one of them")
        readers = entry_points(group=_GROUP)
        if not readers:
            raise ConfigError(
                "--data: to read a data folder needs the collector: "
                "pip install 'scouter-agents[collector]'"
            )
        with next(iter(readers)).load()(self.data, self.space) as history:
            yield history


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The series of a history, and the profiles that evaluated."""

    series: "list[Recorder]"
    """Those of tasks and records, and those of slices that would have fired."""
    alerts: "list[Cause]"
    """The alerts that people would have seen."""
    profiles: "dict[str, KnownProfile]"
    end_ns: int

    def name(self, each: "Recorder") -> str:
        """Name a series for people."""
        return self.name_of(each.key)

    def name_of(self, key: "SeriesKey") -> str:
        """The same by its key."""
        known = self.profiles.get(key.profile_uid)
        profile = key.profile_uid if known is None else f"{known.alias} {known.digest[:8]}"
        agent = " ".join(filter(None, key.agent[:2]))
        version = f"version {key.agent.version}" if key.agent.version else ""
        kind = "" if key.kind.value == "pass" else key.kind.value
        what = key.slice or key.task or "(record)"
        return ", ".join(filter(None, (profile, agent, version, what, kind)))


def replayed(
    history: "History",
    period: "Period",
    alpha: float,
    pace_s: tuple[float, float],
    note: Callable[[str], None],
) -> Replayed:
    """Replay a period.

    Args:
        history: Holds the results.
        period: The period.
        alpha: Chance of a false alarm of each series.
        pace_s: Quiet time and deadline of a conversation, in seconds.
        note: Is called with the progress.
    """
    from scouter.drift.history.replay import replay
    from scouter.drift.series.group import Pace
    from scouter.drift.series.reference import NOTHING, Stated

    profiles = dict(history.profiles())

    def stated_of(space: str, uid: str) -> Stated:
        del space  # one is read at a time
        return profiles[uid].stated if uid in profiles else NOTHING

    end_ns = period.until_ns or time.time_ns()
    found, alerts = replay(
        (
            replace(each, yardsticks=known.yardsticks, waits=known.waits)
            if (known := profiles.get(each.profile_uid)) is not None
            else each
            for each in history.results(period)
        ),
        alpha=alpha,
        pace=Pace(int(pace_s[0] * _NS), int(pace_s[1] * _NS)),
        stated_of=stated_of,
        end_ns=end_ns,
        progress=lambda count: note(f"replayed {count:,} results"),
    )
    shown = [each for each in found if each.alarms or not each.key.slice]
    return Replayed(series=shown, alerts=alerts, profiles=profiles, end_ns=end_ns)
