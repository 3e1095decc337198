"""Gates: rates and means that a run has to reach, whatever an earlier run did."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
"""A share from 0 to 1."""
Mean = Annotated[float, Field(allow_inf_nan=False, strict=True)]
"""A mean of scores, in whatever unit a task gives them."""


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read_alias(value: object) -> object:
    """A bare number is the alias' own rate."""
    return {"min_pass_rate": value} if _is_rate(value) else value


def _read_tag(value: object) -> object:
    """A bare number is the share of the tag's scenarios that pass."""
    return {"min_scenario_pass_rate": value} if _is_rate(value) else value


class AliasGates(BaseModel):
    """The rates that one alias has to reach."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    min_pass_rate: Rate | None = None
    """Over all tasks of all its records."""
    tasks: dict[str, Rate] = Field(default_factory=dict)
    """Per task of the alias."""


class TagGates(BaseModel):
    """The rates that the scenarios with one tag have to reach."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    min_scenario_pass_rate: Rate | None = None
    """Share of these scenarios that passed."""
    min_pass_rate: Rate | None = None
    """Over all task results of these scenarios and of the records that they left."""


class Gates(BaseModel):
    """The rates and means that a run has to reach; in a scenario file under the key `gates`.

    A scenario passed if every attempt of it that was decided did; `scenarios_passed` counts them.
    A rate of tasks is passed / (passed + failed + errored + skipped by a gate), as everywhere.

    Raises:
        pydantic.ValidationError: A rate is not in [0, 1], or there is no such field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    min_scenario_pass_rate: Rate | None = None
    """Share of the scenarios that passed."""
    min_pass_rate: Rate | None = None
    """Over every task result of the run, those of the scenarios' own tasks included."""
    tags: dict[str, Annotated[TagGates, BeforeValidator(_read_tag)]] = Field(default_factory=dict)
    """Per tag of scenarios: a share of scenarios, or
    `{"min_scenario_pass_rate": share, "min_pass_rate": rate}`."""
    aliases: dict[str, Annotated[AliasGates, BeforeValidator(_read_alias)]] = Field(
        default_factory=dict
    )
    """Per alias: a rate, or `{"min_pass_rate": rate, "tasks": {task: rate}}`."""
    tasks: dict[str, Rate] = Field(default_factory=dict)
    """Per task id, over all aliases and the scenarios that have a task of this id."""
    min_scores: dict[str, Mean] = Field(default_factory=dict)
    """Per task id, the least mean of its scores; results without a score are in no mean."""
