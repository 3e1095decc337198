"""Prices of models: a table from the user, because prices change and differ by contract."""

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, RootModel

from scouter.evaluate.files.read import load_model

_MILLION = 1_000_000


class Price(BaseModel):
    """US dollars for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """US dollars for so many tokens."""
        return (self.input * input_tokens + self.output * output_tokens) / _MILLION


class PriceTable(RootModel[dict[str, Price]]):
    """Prices by the model's name, as spans tell it."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def read(cls, path: Path | None) -> Self:
        """Read a YAML or JSON file; without one no model has a price.

        Raises:
            FileFormatError: Names file, line and field.
        """
        return cls({}) if path is None else load_model(path, cls)

    def of(self, models: Iterable[str]) -> Price | None:
        """The price of the first of some names that has one."""
        return next((self.root[name] for name in models if name in self.root), None)
