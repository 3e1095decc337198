"""A prompt's settings, from the words of the vendors to those of the client.

Prompts carry what their author wrote: `{"temperature": 0}`, or what `OpenAIChatSettings`,
`AnthropicSettings` and `GeminiSettings` hold. What a judge has no use for is refused, not dropped:
tools, streams, several answers, headers.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.agent.entries import Kind, ProviderEntry
from scouter.errors import ConfigError

Sent: TypeAlias = dict[str, Any]

ANTHROPIC_MAX_TOKENS: Final = 4096
"""Of an answer where the prompt says nothing; this vendor wants a number."""

_COMMON: Final = {
    name: name
    for name in (
        "max_tokens", "temperature", "top_p", "top_k", "seed", "presence_penalty",
        "frequency_penalty", "stop_sequences", "extra_body",
    )
}  # fmt: skip
_OPENAI: Final = {
    **_COMMON,
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    "logit_bias": "logit_bias",
    "logprobs": "openai_logprobs",
    "top_logprobs": "openai_top_logprobs",
    "prediction": "openai_prediction",
    "prompt_cache_key": "openai_prompt_cache_key",
    "reasoning_effort": "openai_reasoning_effort",
    "service_tier": "openai_service_tier",
    "store": "openai_store",
    "user": "openai_user",
    "verbosity": "openai_text_verbosity",
}
_ANTHROPIC: Final = {
    **{name: name for name in ("max_tokens", "temperature", "top_p", "top_k", "stop_sequences")},
    "extra_body": "extra_body",
    "metadata": "anthropic_metadata",
    "service_tier": "anthropic_service_tier",
    "thinking": "anthropic_thinking",
    "effort": "anthropic_effort",
}
_GOOGLE: Final = {
    **{name: name for name in _COMMON if name != "extra_body"},
    "max_output_tokens": "max_tokens",
    "thinking_config": "google_thinking_config",
    "response_logprobs": "google_logprobs",
    "logprobs": "google_top_logprobs",
    "media_resolution": "google_video_resolution",
    "safety_settings": "google_safety_settings",
    "labels": "google_labels",
    "cached_content": "google_cached_content",
    "model_armor_config": "google_model_armor_config",
}
_NAMES: Final[Mapping[Kind, Mapping[str, str]]] = {
    "openai": _OPENAI, "anthropic": _ANTHROPIC, "google": _GOOGLE, "vertex": _GOOGLE
}  # fmt: skip
_REFUSED: Final = {
    "extra_headers": "a judge's requests carry no headers of a prompt",
    "tools": "a judge calls no tools",
    "tool_choice": "a judge calls no tools",
    "tool_config": "a judge calls no tools",
    "n": "a judge answers once; ask several times for several answers",
    "candidate_count": "a judge answers once; ask several times for several answers",
    "stream": "a judge's answer is read as a whole",
    "stream_options": "a judge's answer is read as a whole",
    "response_format": "output_type says what an answer looks like",
    "response_mime_type": "output_type says what an answer looks like",
    "response_json_schema": "output_type says what an answer looks like",
}
_HARMLESS: Final[Mapping[str, JsonValue]] = {"n": 1, "candidate_count": 1, "stream": False}
"""Values that ask for what happens anyway."""


def to_client_settings(entry: ProviderEntry, given: Mapping[str, JsonValue]) -> Sent:
    """Translate a prompt's settings.

    Args:
        entry: Who gets them.
        given: Of the prompt; those without a value count as not given. `timeout` and, for
            Anthropic, `system` are others' business, and left out.

    Returns:
        Settings in the words of pydantic-ai.

    Raises:
        ConfigError: A setting that a judge has no use for, or that this vendor does not have.
    """
    names = _NAMES[entry.kind]
    sent: Sent = {}
    extra: dict[str, JsonValue] = {}
    for name, value in _flat(entry.kind, given).items():
        if value is None or name == "timeout" or (name, entry.kind) == ("system", "anthropic"):
            continue
        if name in _REFUSED:
            if name in _HARMLESS and value == _HARMLESS[name]:
                continue
            raise ConfigError(f"model setting {name!r}: {_REFUSED[name]}")
        target = names.get(name)
        if target is None or (entry.base_url and name == "max_completion_tokens"):
            extra[name] = value  # servers that speak a vendor's protocol have settings of their own
        elif target == "extra_body":
            extra.update(_body(value))
        else:
            sent[target] = value
    if entry.kind == "openai" and "top_k" in sent:
        extra["top_k"] = sent.pop("top_k")  # not OpenAI's, but of many that speak its protocol
    if extra:
        if entry.kind in {"google", "vertex"}:
            known = ", ".join(sorted(names))
            raise ConfigError(f"model setting {min(extra)!r} is not one of {known}")
        sent["extra_body"] = extra
    if entry.kind == "anthropic":
        sent.setdefault("max_tokens", ANTHROPIC_MAX_TOKENS)
    return sent


def timeout_of(entry: ProviderEntry, given: Mapping[str, JsonValue]) -> float:
    """Seconds for one answer: a prompt may ask for fewer than the entry's."""
    wanted = given.get("timeout")
    if isinstance(wanted, int | float) and wanted > 0:
        return min(float(wanted), entry.timeout_s)
    return entry.timeout_s


def system_of(entry: ProviderEntry, given: Mapping[str, JsonValue]) -> str:
    """What the settings say for the system, as Anthropic's may."""
    system = given.get("system") if entry.kind == "anthropic" else None
    return system if isinstance(system, str) else ""


def _flat(kind: Kind, given: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Bring Google's nested settings to one level, in snake case."""
    if kind not in {"google", "vertex"}:
        return given
    flat: dict[str, JsonValue] = {}
    for name, value in given.items():
        if _snake(name) == "generation_config" and isinstance(value, dict):
            flat.update({_snake(inner): each for inner, each in value.items()})
        else:
            flat[_snake(name)] = value
    thinking = flat.get("thinking_config")
    if isinstance(thinking, dict):
        flat["thinking_config"] = {_snake(name): each for name, each in thinking.items()}
    return flat


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _body(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise ConfigError("model setting 'extra_body': expected an object of further fields")
    return cast("dict[str, JsonValue]", value)
