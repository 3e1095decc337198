"""Whom the collector's judges may ask: the entries of its own settings, and nobody else."""

import os
from collections.abc import Mapping

from scouter.agent.entries import ProviderEntries
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
        environ: Where keys are looked up.
    """

    def __init__(self, entries: ProviderEntries, environ: Mapping[str, str] = os.environ) -> None:
        self.entries = entries
        self.judge = ModelJudge(entries, environ=environ)
        """Asks them."""

    def check(self, profile: AgentEvalProfile) -> None:
        """Refuse a profile whose judges could not be asked; the network is not used.

        Raises:
            UnaskableJudgeError: There is no such entry, its key is not set, or its vendor's package
                is not installed; says of which task.
        """
        for task in profile.tasks:
            if not isinstance(task, LLMJudgeTask):
                continue
            name = str(task.prompt.provider)
            try:
                if self.name_of(name) is None:
                    raise ConfigError(
                        f"the collector has no provider entry {name!r}; it has "
                        f"{', '.join(self.entries.names)}. Others stand in its settings, under "
                        "`providers` or in the providers_file"
                    )
                self.judge.check(name, task.prompt.model_settings)
            except ConfigError as error:
                raise UnaskableJudgeError(f"task {task.id!r}: {error}") from error

    def name_of(self, provider: str) -> str | None:
        """The name of the entry that a prompt means; None if there is none."""
        try:
            return self.entries.find(provider).name
        except ConfigError:
            return None
