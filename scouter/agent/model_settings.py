"""ModelSettings: the settings of any provider, under one name."""

from pydantic import ConfigDict, RootModel

from scouter.agent.anthropic import AnthropicSettings
from scouter.agent.google import GeminiSettings
from scouter.agent.openai import OpenAIChatSettings

AnySettings = OpenAIChatSettings | AnthropicSettings | GeminiSettings


class ModelSettings(RootModel[AnySettings]):
    """The settings of any provider; dumped as they are themselves.

    Args:
        root: The provider's settings.
    """

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    @property
    def settings(self) -> AnySettings:
        """The provider's settings."""
        return self.root
