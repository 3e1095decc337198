"""Judges: prompts, providers and their settings.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.agent.budget.ledger import Ledger
    from scouter.agent.budget.sqlite import SqliteLedger
    from scouter.agent.cache.cached_judge import CachedJudge
    from scouter.agent.cache.memory import MemoryCache
    from scouter.agent.cache.port import JudgeCache
    from scouter.agent.cache.sqlite import SqliteCache
    from scouter.agent.entries import Price, ProviderEntries, ProviderEntry
    from scouter.agent.model_judge import ModelJudge
    from scouter.agent.model_settings import ModelSettings
    from scouter.evaluate.judge.prompt import Prompt, Provider, Role, Score
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = (
    "CachedJudge",
    "JudgeCache",
    "Ledger",
    "MemoryCache",
    "ModelJudge",
    "ModelSettings",
    "Price",
    "Prompt",
    "Provider",
    "ProviderEntries",
    "ProviderEntry",
    "Role",
    "Score",
    "SqliteCache",
    "SqliteLedger",
)
