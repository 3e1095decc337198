"""What a language model is asked, and by which settings: prompts as data.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.agent.model_settings import ModelSettings
    from scouter.evaluate.prompt import Prompt, Provider, Role, Score
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        models={
            "scouter.agent.model_settings": ("ModelSettings",),
            "scouter.evaluate.prompt": ("Prompt", "Score"),
        },
        others={
            "scouter.evaluate.prompt": ("Provider", "Role"),
        },
    )

__all__ = ("ModelSettings", "Prompt", "Provider", "Role", "Score")
