"""What a language model is asked, and by which settings: prompts as data.

Each name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scouter.agent.model_settings import ModelSettings
    from scouter.evaluate.prompt import Prompt, Provider, Role, Score

_HOMES = {
    "ModelSettings": "scouter.agent.model_settings",
    "Prompt": "scouter.evaluate.prompt",
    "Provider": "scouter.evaluate.prompt",
    "Role": "scouter.evaluate.prompt",
    "Score": "scouter.evaluate.prompt",
}

__all__ = ("ModelSettings", "Prompt", "Provider", "Role", "Score")


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
