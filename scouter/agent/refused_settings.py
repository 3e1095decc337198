"""Settings that no prompt may bring: they would undo what was checked, priced and fenced.

A prompt's settings go into the body of a request, beside what the judge itself puts there. A field
that means the same as one of the judge's would take its place: another model than the one with a
price, messages without the sentence that fences what is judged, a hundred answers to one question.
"""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from pydantic import JsonValue

from scouter.errors import ConfigError

_WHY: Final[Mapping[str, tuple[str, ...]]] = {
    "the prompt's own field 'model' says which model is asked": (
        "model", "models", "model_id", "model_list", "engine", "deployment", "deployment_id",
        "fallbacks", "context_window_fallbacks", "preset", "lora", "lora_request", "adapter_id",
    ),
    "what is asked stands in the prompt's messages, with what fences the values in them": (
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
        inside, field, held = open_fields.pop()
        path, folded = f"{inside}{field}", _folded(field)
        if held is None or _is_harmless(folded, held):
            continue
        if folded in _REFUSED:
            raise ConfigError(f"model setting {path!r}: {_REFUSED[folded]}")
        if folded == "servicetier" and held not in _TIERS:
            known = ", ".join(_TIERS)
            raise ConfigError(
                f"model setting {path!r}: expected one of {known}; others cost more than the "
                "prices of the entry say"
            )
        if folded not in _OPAQUE:
            open_fields += [(f"{path}.", *inner) for inner in _fields_in(held)]
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
