"""ModelSettings: the settings of any provider, under one name."""

from typing import TYPE_CHECKING

from pydantic import ConfigDict, RootModel

from scouter.agent.anthropic import AnthropicSettings
from scouter.agent.google import GeminiSettings
from scouter.agent.openai import OpenAIChatSettings

AnySettings = OpenAIChatSettings | AnthropicSettings | GeminiSettings


class ModelSettings(RootModel[AnySettings]):
    """The settings of any provider; dumped as they are themselves.

    Args:
        root: The provider's settings; `settings` is another word for it.
    """

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    if not TYPE_CHECKING:  # whoever checks types sees the root

        def __init__(self, *root: object, settings: object = None, **fields: object) -> None:
            super().__init__(*(root if settings is None else (settings,)), **fields)

    @property
    def settings(self) -> AnySettings:
        """The provider's settings."""
        return self.root
