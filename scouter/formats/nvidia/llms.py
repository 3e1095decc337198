"""Models that a config file names as judges, called by the user's own provider entries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from pydantic import JsonValue, ValidationError

from scouter.agent.entries import ProviderEntries, ProviderEntry
from scouter.errors import ConfigError
from scouter.evaluate.judge.ask import TaskJudge
from scouter.evaluate.judge.prompt import Prompt
from scouter.formats.nvidia.config import LlmConfig

_SETTINGS: Final = ("max_tokens", "temperature", "top_p", "seed")
_NVIDIA_URL: Final = "https://integrate.api.nvidia.com/v1"
_NVIDIA_KEY: Final = "NVIDIA_API_KEY"
_VENDORS: Final[Mapping[str, str]] = {"openai": "api.openai.com", "nim": "integrate.api.nvidia.com"}
"""Host that the vendor's key belongs to, by kind of model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLlms:
    """The models of a config file, each with the provider entry that calls it."""

    llms: Mapping[str, LlmConfig]
    entries: ProviderEntries
    """Provider entries of the user's settings, with one more for each model that has none there."""
    providers: Mapping[str, str]
    """Name of the provider entry of each model, by the model's name."""

    @staticmethod
    def of(
        llms: Mapping[str, LlmConfig],
        settings: ProviderEntries,
        note: Callable[[str], None],
    ) -> "NamedLlms":
        """Find the entry for each model.

        An entry of the user's settings with the name of the model is used. Without one, a vendor's
        own address is called with that vendor's usual key. Any other address is called without a
        key: a file that somebody else wrote sends no key anywhere.

        Args:
            llms: By name.
            settings: The user's entries.
            note: Is notified of addresses that get no key.

        Raises:
            ConfigError: A model has a kind that is not known here, or a wrong address.
        """
        added: dict[str, ProviderEntry] = {}
        providers: dict[str, str] = {}
        for name, llm in llms.items():
            if name in settings.providers:
                providers[name] = name
                continue
            if llm.api_key is not None:
                note(
                    f"llms.{name}.api_key is not used: keys come from the environment; name its "
                    f"variable in an entry {name!r} of the provider settings"
                )
            entry = _entry(name, llm)
            if entry is None:
                providers[name] = "openai"
                continue
            if entry.keyless:
                note(
                    f"llms.{name}: {entry.base_url} is called without a key; to send one, write an "
                    f"entry {name!r} with its key_variable into the provider settings"
                )
            added[name], providers[name] = entry, name
        both = {**settings.providers, **added}
        entries = settings.model_copy(update={"providers": both})
        return NamedLlms(llms=llms, entries=entries, providers=providers)

    def judge(self, name: str, max_retries: int) -> TaskJudge:
        """Give the judge that a model is, for the functions of tasks."""
        llm = self.llms[name]
        return TaskJudge(
            model=llm.model_name, provider=self.providers[name], settings=_settings(llm),
            max_retries=max_retries,
        )  # fmt: skip

    def prompt(self, name: str, forms: Sequence[str]) -> Prompt:
        """Say how a model is called.

        Args:
            name: The model.
            forms: Its questions; nothing in them is a variable of ours.

        Raises:
            pydantic.ValidationError: The provider can have no such name, or a question is empty.
        """
        llm = self.llms[name]
        messages = [form.replace("${", "$${") for form in forms]
        return Prompt(messages, llm.model_name, self.providers[name], None, _settings(llm) or None)


def _settings(llm: LlmConfig) -> dict[str, JsonValue]:
    return {each: getattr(llm, each) for each in _SETTINGS if getattr(llm, each) is not None}


def _entry(name: str, llm: LlmConfig) -> ProviderEntry | None:
    """The entry of a model that the user's settings do not have; None for OpenAI's own."""
    host = _VENDORS.get(llm.type)
    if host is None:
        raise ConfigError(
            f"llms.{name}: the _type {llm.type!r} is not known here; write an entry {name!r} into "
            f"the provider settings, or use {' or '.join(_VENDORS)}"
        )
    url = llm.base_url
    is_vendor = url is None or (urlsplit(url).scheme, urlsplit(url).hostname) == ("https", host)
    if is_vendor and llm.type == "openai":
        return None
    try:
        if is_vendor:
            return ProviderEntry(
                name=name, kind="openai", base_url=_NVIDIA_URL, key_variable=_NVIDIA_KEY
            )
        return ProviderEntry(name=name, kind="openai", base_url=url, keyless=True)
    except ValidationError as error:
        raise ConfigError(f"llms.{name}: {error.errors()[0]['msg']}") from error
