"""Provider entries for the collector's judges, those of its settings alone, and what they spend."""

import asyncio
import logging
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from collector.store.ledger import LEDGER_NAME, put_ledger_aside
from collector.store.opening import LostDataError
from scouter.agent.budget import ALL_ENTRIES, account_of, today
from scouter.agent.entries import ProviderEntries, UnknownEntryError, UnsetKeyError
from scouter.agent.ledger import NANO, Ledger, LedgerError, SqliteLedger
from scouter.agent.model_judge import ModelJudge
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError

_log: Final = logging.getLogger(__name__)


class UnaskableJudgeError(ConfigError):
    """A profile has a judge task that this collector could not ask anybody for."""


class JudgeProviders:
    """The provider entries of a collector.

    Args:
        entries: From its settings; well-known names are entries too.
        folder: The data folder.
        environ: Holds the keys.
        ledger: Counts what is spent, in place of the file in the data folder.
    """

    def __init__(
        self,
        entries: ProviderEntries,
        folder: Path,
        environ: Mapping[str, str] = os.environ,
        ledger: Ledger | None = None,
    ) -> None:
        self.entries, self._folder = entries, folder
        self._file: SqliteLedger | None = None
        if ledger is None:
            ledger = self._file = SqliteLedger(folder / LEDGER_NAME)
        self.ledger: Ledger = ledger
        self.judge = ModelJudge(entries, environ=environ, ledger=self.ledger)
        """Asks them."""

    @property
    def budgets_usd(self) -> Mapping[str, tuple[str, float]]:
        """By name of an account of a day: the entry, `*` for all of them, and its limit."""
        found = {
            account_of(name): (name, usd) for name, usd in self.entries.daily_budgets_usd.items()
        }
        if self.entries.daily_budget_usd is not None:
            found[ALL_ENTRIES] = ("*", self.entries.daily_budget_usd)
        return found

    def check_ledger(
        self, missing_files: Collection[str] = (), *, accept_loss: bool = False
    ) -> None:
        """Refuse to go on where a budget is set that the data folder could not keep.

        Args:
            missing_files: Names of files of the data folder that were there before.
            accept_loss: Begin as if nothing had been spent where nobody knows what was.

        Raises:
            LostDataError: Names the file.
        """
        file, path = self._file, self._folder / LEDGER_NAME
        if file is None:
            return
        fault = ""
        if LEDGER_NAME in missing_files:
            fault = f"{path} is gone; it said what judges have spent"
        elif self.budgets_usd or path.exists():
            try:
                asyncio.run(file.check())
            except LedgerError as error:
                fault = f"nobody knows what judges have spent: {error}"
        if fault and self.budgets_usd:
            fault = f"there is a budget for judges. {fault}"
        if not fault:
            return
        if self.budgets_usd and not accept_loss:
            raise LostDataError(self._folder, fault)
        _log.warning("%s", fault)
        if accept_loss:
            file.close()
            put_ledger_aside(self._folder)
            asyncio.run(file.check())  # which makes a new one

    def check(self, profile: AgentEvalProfile) -> None:
        """Refuse a profile whose judges could not be called; the network is not used.

        Raises:
            UnaskableJudgeError: There is no such entry, its key is not set, its vendor's package is
                not installed, or the prompt has settings that it does not take; says of which task.
        """
        for task in profile.tasks:
            prompt = task.judge_prompt
            if prompt is None:
                continue
            name = str(prompt.provider)
            try:
                self.judge.check(name, prompt.model_settings, prompt.model)
            except UnknownEntryError as error:
                raise UnaskableJudgeError(
                    f"task {task.id!r}: the collector has no provider entry {name!r}; it has "
                    f"{', '.join(self.entries.names)}. Others stand in its settings, under "
                    "`providers` or in the providers_file"
                ) from error
            except UnsetKeyError as error:
                raise UnaskableJudgeError(
                    f"task {task.id!r}: {error} in the collector's environment, and start the "
                    "collector again"
                ) from error
            except ConfigError as error:
                raise UnaskableJudgeError(f"task {task.id!r}: {error}") from error

    def name_of(self, provider: str) -> str | None:
        """The name of the entry that a prompt means; None if there is none for it."""
        try:
            return self.entries.find(provider).name
        except ConfigError:
            return None


class Spending(Collector):
    """Reads the ledger at each scrape.

    Args:
        ledger: Has the accounts.
        budgets_usd: By account the entry that it is shown as, and its limit.
    """

    def __init__(
        self,
        ledger: Ledger,
        budgets_usd: Mapping[str, tuple[str, float]],
    ) -> None:
        self._ledger, self._budgets_usd = ledger, budgets_usd

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The series of all accounts; without those that cannot be read now."""
        of = ", by provider entry; * is all of them together."
        limit, spent, reserved = (
            GaugeMetricFamily(f"scouter_judge_{name}_usd", f"{text}{of}", labels=("entry",))
            for name, text in (
                ("daily_budget", "US dollars that judges may spend in a day (UTC)"),
                ("spent_today", "US dollars that judges' questions of this day (UTC) have cost"),
                ("reserved_today", "US dollars put aside for questions that are not settled"),
            )
        )
        for account, (entry, usd) in self._budgets_usd.items():
            limit.add_metric([entry], usd)
            try:
                used, open_ = asyncio.run(self._read(account))
            except LedgerError as error:
                _log.warning("nobody knows what judges have spent: %s", error)
                continue
            spent.add_metric([entry], (used - open_) / NANO)
            reserved.add_metric([entry], open_ / NANO)
        return limit, spent, reserved

    async def _read(self, account: str) -> tuple[int, int]:
        """Read the money used and the part of it that is reserved, in billionths of a dollar."""
        day = today()
        # In this order, so that what is settled in between does not make the difference negative.
        open_ = await self._ledger.reserved_nano_usd(account, day)
        used = await self._ledger.spent_nano_usd(account, day)
        return max(used, open_), open_
