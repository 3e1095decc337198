"""Costs of models' calls: as their sender wrote them, else by a list of prices that is maintained.

The list is that of the package `genai-prices`, by provider, model and day of the call. It has
prices of tokens, of those that were read from or written to a cache, of sound, of long inputs, and
of a call. Pictures that are read and caches of more than five minutes count as plain tokens,
searches not at all. Models that make pictures have no price.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import ConfigDict, Field, FiniteFloat

from scouter.model.genai.facts import Kind, SpanFacts, Usage
from scouter.model.genai.reported import stated, states_usage
from scouter.model.span import Span

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot

COSTS: Final = (
    "gen_ai.usage.cost", "gen_ai.usage.cost_usd", "gen_ai.usage.total_cost", "llm.cost.total",
    "llm.usage.total_cost", "operation.cost",
)  # fmt: skip
"""Attributes in which instrumentors write the cost of a call, in the currency of its sender."""
_HALF_HOUR_NS: Final = 1_800 * 10**9
"""Some prices depend on the time of the day."""
_NO_COST: Final = 1e9
"""US dollars that no call costs: such numbers are somebody's mistake."""
_PLACE: Final = re.compile(r"^(?:.*publishers/[^/]+/)?models/")
"""Beginning of Google's own names of models."""
_BY_MODEL: Final = "litellm"
"""Stands for no provider: the list then goes by the model's name, and by `provider/` before it."""
_PROVIDERS: Final = {
    "": _BY_MODEL, "langchain": _BY_MODEL, "llamaindex": _BY_MODEL, "x_ai": "x-ai",
    "gcp.gen_ai": "google", "gcp.vertex.agent": "google", "azure.ai.inference": "azure",
    "moonshot_ai": "moonshotai",
}  # fmt: skip
"""Providers by OpenTelemetry's names, and frameworks that write their own, as the list has them."""


Usd: TypeAlias = Annotated[FiniteFloat, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model, in US dollars for a million tokens.

    Args:
        input: Read by the model.
        output: Written by it, reasoning included.
        cache_read: Read from a cache; as other input if not given.
        cache_write: Written to a cache; the same.
        call: US dollars of each call itself.
        audio_input: Sound that is read; no price of it is known if not given.
        audio_output: Sound that is written; the same.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    input: Usd
    output: Usd
    cache_read: Usd | None = None
    cache_write: Usd | None = None
    call: Usd = 0.0
    audio_input: Usd | None = None
    audio_output: Usd | None = None

    def cost(
        self,
        input_tokens: int,
        output_tokens: int,
        read: int = 0,
        written: int = 0,
        calls: int = 1,
        *,
        heard: int = 0,
        spoken: int = 0,
    ) -> float | None:
        """Price calls.

        Args:
            input_tokens: All that was read, those of a cache included.
            output_tokens: All that was written, reasoning included.
            read: The part of the input that came from a cache.
            written: The part of the input that went into a cache.
            calls: Their number.
            heard: The part of the input that is sound.
            spoken: The part of the output that is sound.

        Returns:
            US dollars; None for sound without a price, or of which a part may be in a cache.
        """
        heard = 0 if self.audio_input == self.input else heard
        spoken = 0 if self.audio_output == self.output else spoken
        heard_at, spoken_at = self.audio_input, self.audio_output
        if (heard and (heard_at is None or read or written)) or (spoken and spoken_at is None):
            return None
        total = max(0, input_tokens - read - written - heard) * self.input
        total += max(0, output_tokens - spoken) * self.output
        total += heard * (heard_at or 0) + spoken * (spoken_at or 0)
        for tokens, price in ((read, self.cache_read), (written, self.cache_write)):
            total += tokens * (self.input if price is None else price)
        return total / 1_000_000 + calls * self.call


def call_cost(facts: SpanFacts, spans: Sequence[Span], own: Price | None = None) -> float | None:
    """Find the cost of a model's call.

    A cost of 0 is what many senders write of a model that they have no price of, so that the list
    is called.

    Args:
        facts: Of the call.
        spans: Those that report it, the outermost first; one at least.
        own: A price that goes before what the sender wrote, and before the list.

    Returns:
        US dollars; 0 for a call that failed without an answer, None where the cost is unknown.
    """
    if not states_usage(facts):
        return 0.0
    for span in reversed(spans if own is None else ()):  # the innermost is nearest to the provider
        if cost := stated_cost(span.attributes):
            return cost
    usage, models = stated(facts), (facts.response_model, facts.request_model)
    if usage.input is None or (usage.output is None and facts.kind is Kind.MODEL):
        return None
    listed = (list_price(facts.provider, each, spans[0].start_ns, usage) for each in models)
    price = own or next(filter(None, listed), None)
    if price is None:
        return None
    return price.cost(
        usage.input,
        usage.output or 0,
        usage.cached or 0,
        usage.cache_written or 0,
        heard=usage.audio_input or 0,
        spoken=usage.audio_output or 0,
    )


def stated_cost(attributes: Mapping[str, Any]) -> float | None:
    """The cost that a span's sender wrote down; None where it wrote none."""
    for name in COSTS:
        value = attributes.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _NO_COST:
            return float(value)
    return None


def list_price(provider: str, model: str, at_ns: int, usage: Usage) -> Price | None:
    """Look a model up in the list.

    Args:
        provider: As spans name it; empty where they do not.
        model: Its name.
        at_ns: Time of the call.
        usage: Of the call: some providers have higher prices from some length of the input on.

    Returns:
        None for a model, or a provider, that the list does not have, or whose price it does not;
        and for a model that speaks where nothing is reported of sound.
    """
    tokens = usage.input or 0
    is_mute = usage.audio_input is None and usage.audio_output is None
    for start, price in _listed(provider, model, at_ns // _HALF_HOUR_NS) if model else ():
        if tokens > start:
            lacks_output = usage.output and price.input and not price.output
            return None if lacks_output or (is_mute and price.audio_output is not None) else price
    return None


@lru_cache(maxsize=4_096)
def _listed(provider: str, model: str, half_hour: int) -> Sequence[tuple[int, Price]]:
    """Prices of a time by the input tokens beyond which they hold, the highest number first."""
    named, listed = provider.lower(), _list()
    short = _PLACE.sub("", model).removeprefix(f"{named}/")
    if listed is None:
        return ()
    try:
        _, known = listed.find_provider_model(model, None, _PROVIDERS.get(named, named), None)
    except LookupError:
        return _listed(provider, short, half_hour) if short != model else ()
    prices = known.get_prices(datetime.fromtimestamp(half_hour * 1_800, UTC))
    each = (
        prices.input_mtok, prices.output_mtok, prices.cache_read_mtok, prices.cache_write_mtok,
        prices.requests_kcount, getattr(prices, "input_audio_mtok", None),
        getattr(prices, "output_audio_mtok", None),
    )  # fmt: skip
    if each[0] is None or getattr(prices, "output_image_mtok", None) is not None:
        return ()
    starts = {-1, *(tier.start for price in each for tier in getattr(price, "tiers", ()))}
    found: list[tuple[int, Price]] = []
    for start in sorted(starts, reverse=True):
        given, made, read, written, call, *audio = (_rate(price, start + 1) for price in each)
        priced = Price(given or 0.0, made or 0.0, read, written, (call or 0.0) / 1e3, *audio)
        found.append((start, priced))
    return found


def _rate(price: Any, input_tokens: int) -> float | None:  # noqa: ANN401 a number, or one by tiers
    for tier in reversed(getattr(price, "tiers", ())):
        if input_tokens > tier.start:
            return float(tier.price)
    price = getattr(price, "base", price)
    return None if price is None else float(price)


@cache
def _list() -> "DataSnapshot | None":
    try:
        from genai_prices.data_snapshot import get_snapshot  # an extra, with a large table
    except ImportError:
        return None
    return get_snapshot()
