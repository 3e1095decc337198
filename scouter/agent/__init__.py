"""What a language model is asked, by which settings, and who asks: prompts, providers, judges.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.agent.entries import Price, ProviderEntries, ProviderEntry
    from scouter.agent.model_judge import ModelJudge
    from scouter.agent.model_settings import ModelSettings
    from scouter.evaluate.prompt import Prompt, Provider, Role, Score
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        models={
            "scouter.agent.entries": ("Price", "ProviderEntries", "ProviderEntry"),
            "scouter.agent.model_settings": ("ModelSettings",),
            "scouter.evaluate.prompt": ("Prompt", "Score"),
        },
        others={
            "scouter.agent.model_judge": ("ModelJudge",),
            "scouter.evaluate.prompt": ("Provider", "Role"),
        },
    )

__all__ = (
    "ModelJudge",
    "ModelSettings",
    "Price",
    "Prompt",
    "Provider",
    "ProviderEntries",
    "ProviderEntry",
    "Role",
    "Score",
)
