"""Prometheus rules: recording rules and alerts, and the error budgets that they look at."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from scouter.alert.config import AlertThreshold
from scouter.drift.profile import AgentEvalProfile

FEWEST: Final = 30
"""Results in the long window from which on a budget is looked at."""
_LARGEST: Final = 0.75
"""Largest share of failures that a rule may ask for. One that asks for nearly all of the results
could not tell an agent that always fails from chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """Two windows in which too much of the budget goes.

    Args:
        long: Window that proves it, as Prometheus writes it.
        short: Window that shows that it still goes on.
        factor: How many times as fast as allowed.
    """

    long: str
    short: str
    factor: float


BURNS: Final = (
    Burn(long="1h", short="5m", factor=14.4),
    Burn(long="6h", short="30m", factor=6),
    Burn(long="1d", short="2h", factor=3),
    Burn(long="3d", short="6h", factor=1),
)
"""The pairs for a budget of 30 days. Source: "The Site Reliability Workbook", chapter 5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The share of results that a profile wants to pass.

    Args:
        name: The profile's name.
        alias: Its alias.
        share: In (0, 1).
    """

    name: str
    alias: str
    share: float

    def failures(self, burn: Burn) -> float:
        """The share of failures at which the budget goes that fast; above 1 for never."""
        return burn.factor * (1 - self.share)

    @property
    def burns(self) -> tuple[Burn, ...]:
        """The pairs that an agent can reach.

        The budget of the objective s goes at most 1 / (1 - s) times as fast as allowed, when all
        results fail: at 80 % five times, so that 14.4 and 6 would never fire.
        """
        return tuple(burn for burn in BURNS if self.failures(burn) <= _LARGEST)


def objective_of(profile: AgentEvalProfile) -> float | None:
    """The share of passes that a profile states as its lowest healthy one.

    Returns:
        In (0, 1); None where its alert condition states none, or one without room for a failure.
    """
    condition = profile.config.alert_config.alert_condition
    if condition is None or condition.alert_threshold is AlertThreshold.Above:
        return None
    share = condition.lower_bound()
    return share if 0 < share < 1 else None


_ENVIRONMENT: Final = Environment(
    # Prometheus has templates of its own, in {{ }}.
    variable_start_string="<<",
    variable_end_string=">>",
    block_start_string="<%",
    block_end_string="%>",
    comment_start_string="<#",
    comment_end_string="#>",
    loader=PackageLoader("scouter.drift", "prometheus"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # noqa: S701 the result is no page; `quoted` is what makes names safe
)


def rules_text(
    aliases: Sequence[str] = (),
    objectives: Sequence[Objective] = (),
    fewest: int = FEWEST,
) -> str:
    """Write the rules.

    Args:
        aliases: Of the profiles that they are about; all profiles if none is given.
        objectives: Of the profiles whose budget is looked at.
        fewest: Results in the long window from which on a budget is looked at, 1 or more.

    Returns:
        A rule file of Prometheus, as YAML.
    """
    chosen = quoted("|".join(re.escape(each) for each in sorted(set(aliases))))
    return _ENVIRONMENT.get_template("rules.yml.j2").render(
        of_aliases=f"{{alias=~{chosen}}}" if aliases else "",
        and_aliases=f"alias=~{chosen}," if aliases else "",
        objectives=objectives,
        windows=dict.fromkeys(window for burn in BURNS for window in (burn.short, burn.long)),
        fewest=fewest,
        quoted=quoted,
        label=label,
        number=number,
    )


def quoted(text: str) -> str:
    """A string of PromQL; those of JSON are among them."""
    return json.dumps(text, ensure_ascii=False)


def label(text: str) -> str:
    """A label of a rule, as YAML; Prometheus expands templates in labels."""
    return quoted(text.replace("{{", '{{ "{{" }}'))


def number(value: float) -> str:
    """A number as PromQL and people read it."""
    return f"{value:.6g}"
