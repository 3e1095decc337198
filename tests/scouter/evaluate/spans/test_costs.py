"""Costs of single calls: by the list of prices, by their sender, and where nobody knows them."""

from pathlib import Path
from typing import Any, Final

import pytest

from scouter.evaluate.spans.costs import Price, call_cost
from scouter.model.genai.reader import read_facts
from scouter.model.span import Span, StatusCode

ROWS: Final = [
    [cell.strip() for cell in line.split("|")]
    for line in Path("tests/cases/costs.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
_2025: Final = 1_764_500_000 * 10**9
_NAMES: Final = (
    "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.usage.input_tokens",
    "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.output_tokens",
)  # fmt: skip


def call(**attributes: Any) -> Span:
    given = {name.replace("__", "."): value for name, value in attributes.items()}
    return Span(
        span_id="1" * 16, trace_id="2" * 32, name="chat", start_ns=_2025, end_ns=_2025 + 1,
        attributes={"gen_ai.operation.name": "chat", **given},
    )  # fmt: skip


def cost(span: Span) -> float | None:
    return call_cost(read_facts(span), [span])


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_a_call_is_priced_by_the_list(row: list[str]) -> None:
    *given, usd = row
    named = {
        name: int(value) if value.isdigit() else value
        for name, value in zip(_NAMES, given, strict=True)
        if value != "-"
    }
    if "embedding" in row[1]:
        named["gen_ai.operation.name"] = "embeddings"
    assert cost(call(**named)) == (None if usd == "unknown" else pytest.approx(float(usd)))


TOLD: Final = {
    "gen_ai.request.model": "our-own-model", "gen_ai.usage.input_tokens": 1000,
    "gen_ai.usage.output_tokens": 200,
}  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "usd"),
    [
        ({"gen_ai.usage.cost": 0.5}, 0.5),
        ({"operation.cost": 0.25, "gen_ai.request.model": "gpt-4o"}, 0.25),
        ({"llm.cost.total": "0.5"}, None),
        ({"gen_ai.usage.cost": True}, None),
        ({"gen_ai.usage.cost": -1}, None),
        ({"gen_ai.usage.cost": float("inf")}, None),
        ({"gen_ai.usage.cost": 1e308}, None),
        ({"gen_ai.usage.cost": 0}, None),
        ({"gen_ai.usage.cost": 0, "gen_ai.request.model": "gpt-4o"}, 0.0045),
    ],
)
def test_what_the_sender_wrote_comes_first(attributes: dict[str, Any], usd: float | None) -> None:
    """A 0 is what senders write of a model that they do not know."""
    assert cost(call(**{**TOLD, **attributes})) == usd


@pytest.mark.parametrize(
    ("output", "total", "usd"),
    [
        (200, None, 0.00198),
        (50, None, 0.00198),
        (200, 1350, 0.00264),
        (200, 1200, 0.00198),
        (50, 1050, 0.00198),
    ],
)
def test_reasoning_beside_the_output_is_priced(output: int, total: int | None, usd: float) -> None:
    """150 of 1,000 in and 200 or 350 out, at 1.1 and 4.4: it is larger, or the total needs it."""
    given = {
        "gen_ai.provider.name": "openai", "gen_ai.request.model": "o3-mini",
        "gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": output,
        "gen_ai.usage.reasoning.output_tokens": 150,
    }  # fmt: skip
    total_tokens = {} if total is None else {"gen_ai.usage.total_tokens": total}
    assert cost(call(**given, **total_tokens)) == pytest.approx(usd)


def test_a_call_that_failed_without_an_answer_costs_nothing() -> None:
    failed = call(**{"gen_ai.request.model": "our-own-model", "error.type": "429"})
    assert cost(failed) == 0.0
    broke_off = call(**{**TOLD, "error.type": "Timeout"})
    assert cost(broke_off) is None
    assert failed.status is StatusCode.UNSET


IN, OUT = "gen_ai.usage.details.input_audio_tokens", "gen_ai.usage.details.output_audio_tokens"


@pytest.mark.parametrize(
    ("provider", "model", "more", "usd"),
    [
        # 600 at 2.5, 400 at 32, 50 at 10 and 150 at 64 millionths
        ("openai", "gpt-audio", {IN: 400, OUT: 150}, 0.0244),
        ("openai", "gpt-audio", {IN: 0, OUT: 0}, 0.0045),
        ("openai", "gpt-audio", {}, None),
        # 1,000 at 4, 50 at 16 and 150 at 64; of sound in a cache it is not known how much
        ("openai", "gpt-realtime", {OUT: 150}, 0.0144),
        ("openai", "gpt-realtime", {IN: 400, "gen_ai.usage.cache_read.input_tokens": 500}, None),
        # no price of sound is known
        ("openai", "gpt-4o-audio-preview", {IN: 400}, None),
        ("openai", "gpt-4o-audio-preview", {OUT: 150}, None),
        ("openai", "gpt-4o-audio-preview", {}, 0.0045),
        # 600 at 0.3, 400 at 1, 200 at 2.5
        ("gcp.gemini", "gemini-2.5-flash", {IN: 400}, 0.00108),
        ("gcp.gemini", "gemini-2.5-flash", {}, 0.0008),
        # nothing says how much of the output is a picture, at 30 in place of 2.5
        ("gcp.gemini", "gemini-2.5-flash-image", {}, None),
    ],
)
def test_sound_has_prices_of_its_own(
    provider: str, model: str, more: dict[str, int], usd: float | None
) -> None:
    """1,000 tokens in and 200 out, by the vendors' published prices; else the cost is unknown."""
    given = {
        "gen_ai.provider.name": provider, "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": 200,
    }  # fmt: skip
    found = cost(call(**given, **more))
    assert found == (None if usd is None else pytest.approx(usd))


def test_prices_by_hand() -> None:
    """400 plain, 500 read and 100 written tokens, 10 out; a cent for each of two calls."""
    price = Price(2.0, 10.0, cache_read=0.5, cache_write=4.0, call=0.01)
    assert price.cost(1000, 10, 500, 100, calls=2) == pytest.approx(
        0.02 + (800 + 250 + 400 + 100) / 1e6
    )
    assert Price(2.0, 10.0).cost(1000, 0, 500, 100) == pytest.approx(0.002)
    free = Price(0.0, 0.0, audio_input=0.0, audio_output=0.0)
    assert free.cost(1000, 200, 500, heard=400, spoken=150) == 0.0
