"""Judges: prompts, providers and their settings.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.agent.cache import JudgeCache, MemoryCache, SqliteCache
    from scouter.agent.cached_judge import CachedJudge
    from scouter.agent.entries import Price, ProviderEntries, ProviderEntry
    from scouter.agent.ledger import Ledger, SqliteLedger
    from scouter.agent.model_judge import ModelJudge
    from scouter.agent.vendor_settings import ModelSettings
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
