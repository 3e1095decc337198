"""What a language model is asked: prompts as data.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.evaluate.prompt import Prompt, Provider, Role, Score
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        models={
            "scouter.evaluate.prompt": ("Prompt", "Score"),
        },
        others={
            "scouter.evaluate.prompt": ("Provider", "Role"),
        },
    )

__all__ = ("Prompt", "Provider", "Role", "Score")
