"""Whom the collector's judges may ask: the entries of its own settings, and nobody else."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from collector.storage.ledger import LEDGER_NAME
from scouter.agent.budget.budget import ALL_ENTRIES, account_of
from scouter.agent.budget.ledger import LedgerError
from scouter.agent.budget.sqlite import SqliteLedger
from scouter.agent.entries import ProviderEntries, UnknownEntryError, UnsetKeyError
from scouter.agent.model_judge import ModelJudge
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.tasks.judge import LLMJudgeTask


class UnaskableJudgeError(ConfigError):
    """A profile has a judge task that this collector could not ask anybody for."""


class JudgeProviders:
    """The provider entries of a collector.

    Args:
        entries: From its settings; well-known names are entries too.
        folder: The data folder.
        environ: Where keys are looked up.
    """

    def __init__(
        self, entries: ProviderEntries, folder: Path, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.entries = entries
        self.ledger = SqliteLedger(folder / LEDGER_NAME)
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

    def check_ledger(self) -> None:
        """Refuse to go on where a budget is set that could not be kept.

        Raises:
            ConfigError: Names the file.
        """
        for account in self.budgets_usd:
            try:
                asyncio.run(self.ledger.spent_nano_usd(account, ""))
            except LedgerError as error:
                raise ConfigError(f"there is a budget for judges: {error}") from error

    def check(self, profile: AgentEvalProfile) -> None:
        """Refuse a profile whose judges could not be asked; the network is not used.

        Raises:
            UnaskableJudgeError: There is no such entry, its key is not set, its vendor's package is
                not installed, or the prompt has settings that it does not take; says of which task.
        """
        for task in profile.tasks:
            if not isinstance(task, LLMJudgeTask):
                continue
            name = str(task.prompt.provider)
            try:
                self.judge.check(name, task.prompt.model_settings, task.prompt.model)
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
