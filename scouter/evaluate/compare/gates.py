"""Gates: pass rates that a run has to reach, whatever an earlier run did."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
"""A share from 0 to 1."""


def _read_alias(value: object) -> object:
    """A bare number is the alias' own rate."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"min_pass_rate": value}
    return value


class AliasGates(BaseModel):
    """What one alias has to reach."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    min_pass_rate: Rate | None = None
    """Over all tasks of all its records."""
    tasks: dict[str, Rate] = Field(default_factory=dict)
    """Per task of the alias."""


class Gates(BaseModel):
    """The pass rates that a run has to reach; in a scenario file under the key `gates`.

    A rate is passed / (passed + failed + errored + skipped by a gate), as everywhere.

    Raises:
        pydantic.ValidationError: A rate is not in [0, 1], or there is no such field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    min_pass_rate: Rate | None = None
    """Over every task result of the run, those of the scenarios' own tasks included."""
    aliases: dict[str, Annotated[AliasGates, BeforeValidator(_read_alias)]] = Field(
        default_factory=dict
    )
    """Per alias: a rate, or `{"min_pass_rate": rate, "tasks": {task: rate}}`."""
    tasks: dict[str, Rate] = Field(default_factory=dict)
    """Per task id, over all aliases and the scenarios that have a task of this id."""
