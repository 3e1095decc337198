"""A prompt's settings, from the words of the vendors to those of the client.

Prompts carry the settings that their author wrote: `{"temperature": 0}`, or the fields of
`OpenAIChatSettings`, `AnthropicSettings` and `GeminiSettings`. Settings that a judge has no use for
are refused, not dropped: tools, streams, several answers, headers. The limit of an answer goes to a
provider by the one name that it heeds, with any name in the prompt. So the limit bounds the sum
that a budget reserves.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic import ConfigDict, JsonValue, RootModel

from scouter.agent.anthropic import AnthropicSettings
from scouter.agent.entries import Kind, ProviderEntry
from scouter.agent.google import GeminiSettings
from scouter.agent.openai import OpenAIChatSettings
from scouter.errors import ConfigError

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


_WHY: Final[Mapping[str, tuple[str, ...]]] = {
    "the prompt's own field 'model' says which model is called": (
        "model", "models", "model_id", "model_list", "engine", "deployment", "deployment_id",
        "fallbacks", "context_window_fallbacks", "preset", "lora", "lora_request", "adapter_id",
    ),
    "the question stands in the prompt's messages, with what fences the values in them": (
        "messages", "system", "system_prompt", "system_instruction", "system_instructions",
        "instructions", "contents", "prompt", "prompt_id", "prompt_variables", "input", "suffix",
        "previous_response_id", "conversation", "context_management",
        "truncation", "truncate", "truncate_prompt_tokens", "transforms", "chat_template",
        "custom_template", "template", "raw", "echo", "add_generation_prompt",
        "continue_final_message", "documents", "data_sources",
    ),
    "a provider's cache takes the place of what the system says to fence the messages' values": (
        "cached_content",
    ),
    "a judge answers once; ask several times for several answers": (
        "n", "candidate_count", "best_of", "num_return_sequences", "num_generations", "n_cmpl",
        "use_beam_search",
    ),
    "a judge's answer is read as a whole": (
        "stream", "stream_options", "stream_interval", "background",
    ),
    "a judge calls no tools": (
        "tools", "tool_choice", "tool_config", "tool_resources", "functions", "function_call",
        "web_search", "web_search_options", "search_parameters", "enable_search", "plugins",
        "mcp_servers", "container", "code_execution",
    ),
    "output_type says what an answer looks like": (
        "response_format", "response_mime_type", "response_schema", "response_json_schema",
        "response_modalities", "output_config", "output_format", "output_schema", "format", "text",
        "json_schema", "structured_output", "structured_outputs", "structural_tag", "grammar",
        "ebnf", "regex", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
        "modalities", "audio",
    ),
    "the limit of an answer is the prompt's setting 'max_tokens', which a budget reserves": (
        "max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens",
        "max_tokens_to_sample", "max_length", "n_predict", "num_predict", "min_tokens",
    ),
    "it costs more than the prices of the entry say": (
        "prediction", "speed", "inference_geo",
    ),
    "a judge's requests carry no headers, keys and addresses of a prompt; entries say those": (
        "extra_headers", "headers", "extra_query", "base_url", "api_base", "api_key", "api_version",
        "user_config",
    ),
    "further fields of a request stand side by side in one 'extra_body'": (
        "extra_body",
    ),
}  # fmt: skip
"""By the reason, what OpenAI, Anthropic, Google and servers that speak their protocols call it."""


def _folded(name: str) -> str:
    """Bring the ways to write a name to one: some servers read `maxTokens`, others `MAX_TOKENS`."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


_REFUSED: Final = {_folded(name): why for why, names in _WHY.items() for name in names}
_HARMLESS: Final[Mapping[str, JsonValue]] = {
    "n": 1, "candidatecount": 1, "stream": False, "modalities": ["text"],
    "responsemodalities": ["TEXT"],
}  # fmt: skip
"""Values that ask for what happens anyway."""
_TIERS: Final = ("auto", "default", "flex", "scale", "standard_only")
"""Values of `service_tier` that cost no more than the usual one."""
_OPAQUE: Final = frozenset({"metadata", "labels", "provider"})
"""Objects whose inner names are the author's own, or a router's, and never fields of a request."""


def is_of_use(name: str, value: JsonValue, where: str = "") -> bool:
    """Tell whether a setting changes anything; refuse one that would replace the judge's own.

    Args:
        name: Name of the setting.
        value: Its value; objects inside are looked at as well, as some servers read settings there.
        where: Path in front of the name, such as `extra_body.`.

    Raises:
        ConfigError: The setting would change the model, the messages, the form, the limit or the
            number of answers, tools or prices; names its place, and the reason of the refusal.
    """
    open_fields = [(where, name, value)]
    while open_fields:
        inside, field, setting = open_fields.pop()
        path, folded = f"{inside}{field}", _folded(field)
        if setting is None or _is_harmless(folded, setting):
            continue
        if folded in _REFUSED:
            raise ConfigError(f"model setting {path!r}: {_REFUSED[folded]}")
        if folded == "servicetier" and setting not in _TIERS:
            known = ", ".join(_TIERS)
            raise ConfigError(
                f"model setting {path!r}: expected one of {known}; others cost more than the "
                "prices of the entry say"
            )
        if folded not in _OPAQUE:
            open_fields += [(f"{path}.", *inner) for inner in _fields_in(setting)]
    return not _is_harmless(_folded(name), value)


def _is_harmless(folded: str, value: JsonValue) -> bool:
    return folded in _HARMLESS and value == _HARMLESS[folded]


def _fields_in(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Fields of an object, or of those in a list, however deep."""
    if isinstance(value, dict):
        yield from cast("Mapping[str, JsonValue]", value).items()
    elif isinstance(value, list):
        for each in cast("list[JsonValue]", value):
            yield from _fields_in(each)


Sent: TypeAlias = dict[str, Any]

ANTHROPIC_MAX_TOKENS: Final = 4096
"""Most tokens of an answer where the prompt sets no limit; Anthropic demands a number."""

_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Names of the setting that limits the tokens of an answer, as the vendors call it."""
_COMMON: Final = {
    name: name
    for name in (
        "temperature", "top_p", "top_k", "seed", "presence_penalty",
        "frequency_penalty", "stop_sequences", "extra_body",
    )
}  # fmt: skip
_OPENAI: Final = {
    **_COMMON,
    "stop": "stop_sequences",
    "logit_bias": "logit_bias",
    "logprobs": "openai_logprobs",
    "top_logprobs": "openai_top_logprobs",
    "prompt_cache_key": "openai_prompt_cache_key",
    "reasoning_effort": "openai_reasoning_effort",
    "service_tier": "openai_service_tier",
    "store": "openai_store",
    "user": "openai_user",
    "verbosity": "openai_text_verbosity",
}
_ANTHROPIC: Final = {
    **{name: name for name in ("temperature", "top_p", "top_k", "stop_sequences")},
    "extra_body": "extra_body",
    "metadata": "anthropic_metadata",
    "service_tier": "anthropic_service_tier",
    "thinking": "anthropic_thinking",
    "effort": "anthropic_effort",
}
_GOOGLE: Final = {
    **{name: name for name in _COMMON if name != "extra_body"},
    "thinking_config": "google_thinking_config",
    "response_logprobs": "google_logprobs",
    "logprobs": "google_top_logprobs",
    "media_resolution": "google_video_resolution",
    "safety_settings": "google_safety_settings",
    "labels": "google_labels",
    "model_armor_config": "google_model_armor_config",
}
_NAMES: Final[Mapping[Kind, Mapping[str, str]]] = {
    "openai": _OPENAI, "anthropic": _ANTHROPIC, "google": _GOOGLE, "vertex": _GOOGLE
}  # fmt: skip


def to_client_settings(entry: ProviderEntry, given: Mapping[str, JsonValue]) -> Sent:
    """Translate a prompt's settings.

    Args:
        entry: The provider entry that gets them.
        given: Settings of the prompt; those without a value count as not given. `timeout` and, for
            Anthropic, `system` are others' business, and left out.

    Returns:
        Settings in the words of pydantic-ai; `max_tokens` is the only limit of an answer in them.

    Raises:
        ConfigError: A setting that a judge has no use for, or that this vendor does not have, or
            two limits of an answer.
    """
    names = _NAMES[entry.kind]
    sent: Sent = {}
    extra: dict[str, JsonValue] = {}
    limits: dict[str, JsonValue] = {}
    for name, value in _flat(entry.kind, given).items():
        if value is None or name == "timeout" or (name, entry.kind) == ("system", "anthropic"):
            continue
        if name in _LIMITS:
            limits[name] = value
        elif name == "extra_body":
            extra.update(_body(value) if name in names else {name: value})
        elif is_of_use(name, value):
            if name in names:
                sent[names[name]] = value
            else:  # servers that speak a vendor's protocol have settings of their own
                extra[name] = value
    if entry.kind == "openai" and "top_k" in sent:
        extra["top_k"] = sent.pop("top_k")  # not OpenAI's, but of many that speak its protocol
    if extra:
        if entry.kind in {"google", "vertex"}:
            known = ", ".join(sorted((*names, *_LIMITS)))
            raise ConfigError(f"model setting {min(extra)!r} is not one of {known}")
        sent["extra_body"] = extra
    if limits:
        sent["max_tokens"] = _limit(limits)
    elif entry.kind == "anthropic":
        sent["max_tokens"] = ANTHROPIC_MAX_TOKENS
    return sent


def timeout_of(entry: ProviderEntry, given: Mapping[str, JsonValue]) -> float:
    """Seconds for one answer: a prompt may ask for fewer than the entry's."""
    wanted = given.get("timeout")
    if isinstance(wanted, int | float) and wanted > 0:
        return min(float(wanted), entry.timeout_s)
    return entry.timeout_s


def system_of(entry: ProviderEntry, given: Mapping[str, JsonValue]) -> str:
    """Take the system prompt out of the model settings, where Anthropic's may hold it."""
    system = given.get("system") if entry.kind == "anthropic" else None
    return system if isinstance(system, str) else ""


def _limit(given: Mapping[str, JsonValue]) -> int:
    """The one limit that is meant; which of two a provider would heed, nobody can say."""
    found: dict[str, int] = {}
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"model setting {name!r}: expected a whole number of tokens from 1")
        found[name] = value
    first, *others = found.values()
    if any(other != first for other in others):
        said = " and ".join(f"{name!r} ({value})" for name, value in found.items())
        raise ConfigError(
            f"model settings {said}: two limits of one answer; expected one of them, by any name"
        )
    return first


def _flat(kind: Kind, given: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Bring Google's nested settings to one level, in snake case."""
    if kind not in {"google", "vertex"}:
        return given
    flat: dict[str, JsonValue] = {}
    for name, value in given.items():
        is_group = _snake(name) == "generation_config" and isinstance(value, dict)
        fields = cast("Mapping[str, JsonValue]", value) if is_group else {name: value}
        for inner, each in fields.items():
            if each is None:
                continue
            if flat.setdefault(_snake(inner), each) != each:
                raise ConfigError(f"model setting {_snake(inner)!r} is there twice; expected one")
    thinking = flat.get("thinking_config")
    if isinstance(thinking, dict):
        flat["thinking_config"] = {_snake(name): each for name, each in thinking.items()}
    return flat


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _body(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise ConfigError("model setting 'extra_body': expected an object of further fields")
    fields = cast("Mapping[str, JsonValue]", value)
    return {name: each for name, each in fields.items() if is_of_use(name, each, "extra_body.")}
