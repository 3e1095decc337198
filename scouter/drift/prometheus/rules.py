"""Prometheus rules: recording rules and alerts, for all profiles or for some."""

import json
import re
from collections.abc import Sequence
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from scouter.drift.prometheus.budget import BURNS, FEWEST, Objective

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
