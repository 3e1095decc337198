"""Costs of models' calls: by one's own prices, else as the store has them from when they came."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from pydantic import ConfigDict, RootModel

from scouter.evaluate.files.read import load_model
from scouter.evaluate.spans.costs import Price, call_cost
from scouter.model.genai.acts import Act

_MOST_NAMES: Final = 20


class ModelTokens(NamedTuple):
    """Tokens of the calls of one model."""

    models: tuple[str, ...]
    """The model that answered, then the one that was requested, as far as they are known."""
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Part of the input that was read from a cache."""
    written_tokens: int = 0
    """Part of the input that was written to a cache."""
    reasoning_tokens: int = 0
    """Part of the output."""
    audio_input_tokens: int = 0
    """Part of the input that is sound."""
    audio_output_tokens: int = 0
    """Part of the output that is sound."""
    cost_usd: float = 0.0
    """Of the calls whose cost was known as they came."""
    unpriced_calls: int = 0
    """The others."""
    uncounted_calls: int = 0
    """Calls that cost something and do not report their tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of calls of models."""

    usd: float | None
    """US dollars; None without a call, and where that of any call is unknown."""
    unpriced_calls: int = 0
    """Calls of unknown cost."""
    unpriced_models: tuple[str, ...] = ()
    """Their models, sorted; 20 at most."""


class PriceTable(RootModel[dict[str, Price]]):
    """Prices by the model's name, as spans report it."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def read(cls, path: Path | None) -> Self:
        """Read a YAML or JSON file; without one no model has a price of its own.

        Raises:
            FileFormatError: Names file, line and field.
        """
        return cls({}) if path is None else load_model(path, cls)

    def of(self, models: Iterable[str]) -> Price | None:
        """The price of the first of some names that has one."""
        return next((self.root[name] for name in models if name in self.root), None)

    def of_call(self, act: Act) -> float | None:
        """US dollars of one model's call; None where they are unknown."""
        models = (act.facts.response_model, act.facts.request_model)
        return call_cost(act.facts, act.spans, self.of(models))

    def total(self, groups: Iterable[ModelTokens]) -> Cost:
        """The cost of all calls, each by one's own price of its model, if there is one.

        Args:
            groups: Calls of one model each.
        """
        known: list[float] = []
        unpriced, names = 0, set[str]()
        for each in groups:
            price = self.of(each.models)
            lacks = each.unpriced_calls if price is None else each.uncounted_calls
            why = " (tokens not reported)" if each.uncounted_calls == lacks else ""
            cost: float | None = each.cost_usd
            if price is not None and not lacks:
                cost = price.cost(
                    each.input_tokens,
                    each.output_tokens,
                    each.cached_tokens,
                    each.written_tokens,
                    each.calls,
                    heard=each.audio_input_tokens,
                    spoken=each.audio_output_tokens,
                )
                why = " (sound)"
            if cost is not None and not lacks:
                known.append(cost)
            else:
                unpriced += lacks or each.calls
                names.add(next(iter(each.models), "(no model named)") + why)
        return Cost(
            usd=sum(known) if known and not unpriced else None,
            unpriced_calls=unpriced,
            unpriced_models=tuple(sorted(names)[:_MOST_NAMES]),
        )


NO_PRICES: Final = PriceTable({})
"""The list alone."""
