"""The side for people: page, API, profiles, judges, alerts, of a collector and a fleet's api."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from collector.alerts.alert import Alert, AlertAction
from collector.alerts.watch import Watch
from collector.api.app import make_app
from collector.api.parts import Parts, Unready
from collector.api.routes import ROUTERS
from collector.judging.answers import Answers
from collector.judging.calibrations import KnownJudges, given_calibrations, keep_calibrations
from collector.judging.gold import gold_asker
from collector.judging.judges import CountingJudge, JudgeMeasures
from collector.judging.providers import JudgeProviders, Spending
from collector.metrics import Totals
from collector.operation import Orders
from collector.prices import PriceTable
from collector.receivers.http.receiver import HttpReceiver
from collector.results.endpoint import connect
from collector.results.sender import Cursor, ResultsSender
from collector.served import Served
from collector.store.store import Store
from collector.web.routes import serve_page
from collector.worker.open_trace import JoinTimes
from collector.worker.profiles import ProfileRegistry
from collector.worker.worker import WorkOrders
from scouter.agent.ledger import Ledger
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError

S = TypeVar("S", bound=Store)


class Desk(Served, Generic[S]):
    """A process with a page; see the module."""

    store: S

    def _read_given(self, ledger: Ledger | None = None) -> None:
        """Read what the settings name, before a store is opened.

        Args:
            ledger: Counts what is spent; by default a file in the data folder.

        Raises:
            ConfigError: Something of it cannot be used.
        """
        settings = self.settings
        self._given = load_profiles(settings.profile)
        self.prices = PriceTable.read(settings.price_file)
        self.providers = JudgeProviders(settings.provider_entries(), settings.data, ledger=ledger)
        self._given_calibrations = given_calibrations(settings.calibrations)
        for profile in self._given:
            try:
                self.providers.check(profile)
            except ConfigError as error:
                raise ConfigError(f"profile {profile.alias!r}: {error}") from error

    def _keep_given(
        self,
        behind: Callable[[], Mapping[str, str]],
        refer: Callable[[AlertAction], Alert | None] | None = None,
    ) -> None:
        """Store it, and make what judges and watches by it.

        Args:
            behind: Of a `HealthWatch`.
            refer: Of a `DriftWatcher`.
        """
        settings, store, series = self.settings, self.store, self.metrics.registry
        self.calibrations = keep_calibrations(store, self._given_calibrations)
        self.registry = ProfileRegistry(
            store,
            refused=lambda space: self.metrics.profiles_refused.labels(space).inc(),
            takes_all_scores=settings.scores,
        )
        for profile in self._given:
            self.registry.register(settings.space, profile, activate=True)
        self.known_judges = KnownJudges(self.registry, self.calibrations)
        if self.providers.budgets_usd:
            series.register(Spending(self.providers.ledger, self.providers.budgets_usd))
        self.judge_measures = JudgeMeasures(series)
        self.counting = CountingJudge(
            self.providers.judge, self.providers.name_of, self.judge_measures
        )
        self.gold = gold_asker(
            settings, store, self.registry, self.counting, self.calibrations, series
        )
        self.watch = Watch(settings, store, self.registry, series, behind, refer, self.prices)

    def _send_results(self, cursor_of: Callable[[str], Cursor]) -> ResultsSender | None:
        """Make the sender of results, where there is an address for them."""
        address = self.settings.results_otlp
        if address is None:
            return None
        return ResultsSender(
            self.store,
            connect(address, self.settings.results_otlp_headers or {}),
            cursor_of(address),
            self.metrics.registry,
            self.known_judges.behind,
        )

    def _serve(
        self,
        worker: WorkOrders,
        operation: Orders,
        catch_up: Callable[[float], bool],
        answers: Answers | None,
    ) -> None:
        """Make the application, of all parts that answer its routes."""
        parts = Parts(
            space=self.gate.space,
            tokens=self.gate.tokens,
            store=self.store,
            registry=self.registry,
            monitor=self.watch.monitor,
            watcher=self.watch.watcher,
            health=self.watch.health,
            delivery=self.watch.delivery,
            pace=self.watch.pace,
            times=JoinTimes.of(self.settings),
            worker=worker,
            ingest=self.ingest,
            catch_up=catch_up,
            metrics=self.metrics.registry,
            operation=operation,
            prices=self.prices,
            unready=self.unready,
            profiles_changed=self._profiles_changed,
            check_judges=self.providers.check,
            answers=answers,
            judges=self.known_judges,
            gold=self.gold,
        )
        receiver = HttpReceiver(self.ingest, self.telemetry)
        self.app = make_app(parts, self.gate, receiver, ROUTERS)
        serve_page(self.app)

    @property
    def _active(self) -> str:
        """The aliases of active profiles, in words."""
        known = self.registry.all(self.settings.space)
        return ", ".join(each.profile.alias for each in known if each.is_active) or "none"

    @abstractmethod
    def unready(self) -> Unready | None:
        """Reason that this process cannot do its work now; None if it can."""

    @abstractmethod
    def _profiles_changed(self) -> None:
        """Let whatever follows the profiles do so; the caller waits a moment."""

    def _totals(self) -> Totals:
        return self.registry.totals(self.gate.spaces())


def load_profiles(names: Sequence[str]) -> list[AgentEvalProfile]:
    """Read the profiles that were named; each alias can mean one of them only."""
    found: dict[str, tuple[str, AgentEvalProfile]] = {}
    for name in names:
        profile = AgentEvalProfile.from_file(name)
        other = found.setdefault(profile.alias, (name, profile))
        if other[1] != profile:
            raise ConfigError(
                f"profiles {other[0]} and {name} both have the alias {profile.alias!r}: "
                "only one can be active; give one of them another alias"
            )
    by_uid: dict[str, str] = {}
    for alias, (_, profile) in found.items():
        other_alias = by_uid.setdefault(profile.uid, alias)
        if other_alias != alias:
            raise ConfigError(
                f"the profiles {other_alias!r} and {alias!r} have one name {profile.name!r} and "
                "the same tasks, so they are one profile; give one of them another config.name"
            )
    return [profile for _, profile in found.values()]
