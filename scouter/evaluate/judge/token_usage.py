"""Tokens that a model read and wrote."""

from dataclasses import dataclass


@dataclass(slots=True)
class TokenUsage:
    """Tokens of one response; None where a provider does not say.

    Args:
        input_tokens: Read.
        output_tokens: Written.
        total_tokens: Both, as the provider counts them.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
