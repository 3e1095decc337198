"""The parts of a collector that answer its routes."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Final, NamedTuple, TypeAlias

from fastapi import Depends, FastAPI, Request
from prometheus_client import CollectorRegistry

from collector.access.tokens import Tokens
from collector.alerts.conditions import AlertMonitor
from collector.alerts.delivery.delivery import Delivery
from collector.alerts.health import HealthWatch
from collector.alerts.watcher import DriftWatcher
from collector.api.judge_standing import JudgeStandings
from collector.judging.answers import Answers
from collector.judging.calibrations import KnownJudges
from collector.judging.gold import GoldAsker
from collector.operation import Orders
from collector.prices import PriceTable
from collector.problem import ProblemError
from collector.receivers.intake import Intake
from collector.store.store import Store
from collector.worker.backfill import Backfiller
from collector.worker.open_trace import JoinTimes
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.reevaluate import Reevaluator
from collector.worker.worker import WorkOrders
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.group import Pace
from scouter.drift.wire import read_wire_profile
from scouter.drift.wire_tasks import WireProfileError
from scouter.errors import ConfigError
from scouter.model.visible import did_you_mean

_SHOWN: Final = 100


class KnownNames:
    """Tells a filter that found nothing from one that can find nothing.

    Args:
        registry: The registered profiles.
    """

    def __init__(self, registry: ProfileRegistry) -> None:
        self._registry = registry

    def check(self, space: str, profile: str | None, task_id: str | None = None) -> None:
        """Refuse names that no profile of a space has; called where nothing was found.

        Args:
            space: Of the caller.
            profile: Alias, name, uid or digest of any version, active or not.
            task_id: Of a task of these versions.

        Raises:
            ProblemError: 404; says which names are near.

        Cost: linear in the versions of all profiles.
        """
        versions = self._registry.all(space)
        if profile is not None:
            named = [each for each in versions if profile in _names(each)]
            if not named:
                names = (name for each in versions for name in _names(each)[:2] if name)
                raise _unknown("profile", profile, dict.fromkeys(names), "is not registered")
            versions = named
        if task_id is None:
            return
        tasks = dict.fromkeys(task.id for each in versions for task in each.profile.tasks)
        if task_id not in tasks:
            where = "no profile" if profile is None else f"no version of {profile[:_SHOWN]!r}"
            raise _unknown("task_id", task_id, tasks, f"is a task of {where}")


def _names(each: RegisteredProfile) -> tuple[str, ...]:
    return each.profile.alias, each.profile.name, each.uid, each.profile.digest


def _unknown(parameter: str, name: str, known: dict[str, None], what: str) -> ProblemError:
    hint = did_you_mean(name, known) or "see GET /api/v1/profiles"
    return ProblemError(404, f"{parameter}: {name[:_SHOWN]!r} {what}; {hint}")


_MOST: Final = 2000
"""Characters of an answer that says what is wrong."""


class ProfileReader:
    """Reads profiles with the care that a stranger's needs; any thread may ask.

    Args:
        check_judges: Refuses a profile whose judges could not be called.
    """

    def __init__(self, check_judges: Callable[[AgentEvalProfile], None]) -> None:
        self._check_judges = check_judges
        # Reading one may take most of a second: one at a time, so that others are answered.
        self._turn = threading.Lock()

    def read(self, body: bytes) -> AgentEvalProfile:
        """Read a profile.

        Args:
            body: JSON as UTF-8, as `AgentEvalProfile.save_to_json` writes it.

        Raises:
            ProblemError: 422; names the task and the field where there is one.
        """
        try:
            with self._turn:
                profile = read_wire_profile(body)
        except WireProfileError as error:
            raise ProblemError(422, str(error)[:_MOST]) from error
        self.check(profile)
        return profile

    def check(self, profile: AgentEvalProfile) -> None:
        """Refuse a profile whose judges could not be called.

        Raises:
            ProblemError: 422; names the entry, key or package that is missing.
        """
        try:
            self._check_judges(profile)
        except ConfigError as error:
            raise ProblemError(422, str(error)[:_MOST]) from error


class Unready(NamedTuple):
    """Obstacle that keeps the service from its work."""

    part: str
    """Name of the part in one word, for everybody."""
    why: str
    """Reason with addresses and errors, for callers that may read."""


@dataclass(frozen=True, kw_only=True)
class ProbeParts:
    """The parts behind the probes and metrics: all that a process without a page has.

    Attributes:
        space: The collector's own.
        metrics: The metrics that Prometheus reads.
        unready: Reason that the service cannot do its work now; None if it can.
    """

    space: str
    metrics: CollectorRegistry
    unready: Callable[[], Unready | None]

    def remarks(self, space: str) -> str:
        """Say of a space what is not as it should be, and stops nothing."""
        del space
        return ""


@dataclass(frozen=True, kw_only=True)
class Parts(ProbeParts):
    """The parts of one collector.

    Attributes:
        tokens: Those that let callers in.
        store: Holds the data.
        registry: The registered profiles.
        monitor: The alerts of the profiles' own conditions.
        watcher: The detectors and their alerts.
        health: Watches what keeps results from being made.
        delivery: Tells people of alerts.
        pace: Quiet time and deadline of a conversation.
        worker: Stores evaluations.
        ingest: The way in.
        catch_up: Waits so many seconds until the store has what was acknowledged; false if it has
            not.
        operation: Erases and backs up.
        prices: Of models.
        profiles_changed: Is called once profiles were registered or activated.
        check_judges: Refuses a profile whose judges could not be called.
        answers: Stored answers of judges; None where none are stored.
        judges: Knows the calibrations of judges.
        gold: Asks for gold items; None where there are none.
    """

    tokens: Tokens
    store: Store
    registry: ProfileRegistry
    monitor: AlertMonitor
    watcher: DriftWatcher
    health: HealthWatch
    delivery: Delivery
    pace: Pace
    times: JoinTimes
    worker: WorkOrders
    ingest: Intake
    catch_up: Callable[[float], bool]
    operation: Orders
    prices: PriceTable
    profiles_changed: Callable[[], None]
    check_judges: Callable[[AgentEvalProfile], None]
    answers: Answers | None
    judges: KnownJudges
    gold: GoldAsker | None

    def remarks(self, space: str) -> str:
        """See `ProbeParts`."""
        return self.registry.remarks(space)

    @cached_property
    def names(self) -> KnownNames:
        """The names that a question may ask for."""
        return KnownNames(self.registry)

    @cached_property
    def reader(self) -> ProfileReader:
        """Reads profiles in requests."""
        return ProfileReader(self.check_judges)

    @cached_property
    def standings(self) -> JudgeStandings:
        """The standings of judges."""
        return JudgeStandings(self.store, self.judges)

    @cached_property
    def reevaluator(self) -> Reevaluator:
        """Evaluates stored records again."""
        return Reevaluator(self.store, self.registry, self.worker.revise)

    @cached_property
    def backfiller(self) -> Backfiller:
        """Evaluates what is stored without an evaluation."""
        return Backfiller(self.store, self.registry, self.times, self.worker.add)


async def _given(request: Request) -> ProbeParts:  # no thread is needed for it
    """A dependency: the parts of the collector that was called."""
    parts: ProbeParts = request.app.state.parts
    return parts


def give_parts(app: FastAPI, parts: ProbeParts) -> None:
    """Let the routes of an application ask these parts."""
    app.state.parts = parts


TheParts: TypeAlias = Annotated[Parts, Depends(_given)]
TheProbeParts: TypeAlias = Annotated[ProbeParts, Depends(_given)]
"""For the routes that a process without a page has, too."""
