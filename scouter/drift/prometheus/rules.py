"""Files for Prometheus and Grafana: rules, alerts with error budgets, and a dashboard."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from scouter.alert.config import AlertThreshold
from scouter.drift.profile import AgentEvalProfile

_WIDTH: Final = 24
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_OWN: Final = 'space=~"$space",alias=~"$alias"'
_LINE: Final = "alias, task, service, environment"
"""Labels of one line of a detector."""
_LEGEND: Final = "{{alias}} {{task}} {{service}} {{environment}}"
_TASKS: Final = f'{_OWN},task=~"$task"'
_WINDOW: Final = "$__rate_interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A picture of some series.

    Args:
        title: Above it.
        text: Help for the reader.
        queries: PromQL by the name of each line in the legend.
        unit: As Grafana names it.
        line: Draws a line at this value; None for none.
        is_log: Draws a logarithmic scale.
        is_number: Shows the latest value as a number.
    """

    title: str
    text: str
    queries: dict[str, str]
    unit: str = "short"
    line: float | None = None
    is_log: bool = False
    is_number: bool = False


def _task_lines(kind: str) -> dict[str, str]:
    found = {
        name: f'max by ({_LINE}) (scouter_task_{name}{{{_TASKS},kind="{kind}"}})'
        for name in ("rate", "rate_lower", "rate_upper", "baseline", "baseline_lower")
    }
    return {f"{_LEGEND} {name}": query for name, query in found.items()}


def _evidence(title: str, text: str, kind: str) -> Panel:
    query = f'max by ({_LINE}) (scouter_task_evidence{{{_TASKS},kind="{kind}"}})'
    return Panel(title=title, text=text, queries={_LEGEND: query}, line=100, is_log=True)


def _share(title: str, text: str, outcome: str, of: str) -> Panel:
    counts = (
        f"sum by (alias, task) (increase(scouter_task_results_total{{{_TASKS},{each}}}[1h]))"
        for each in (f'outcome="{outcome}"', f'outcome=~"{of}"')
    )
    query = " / ".join(counts)
    return Panel(title=title, text=text, queries={"{{alias}} {{task}}": query}, unit="percentunit")


ROWS: Final = {
    "Now": (
        Panel(
            title="Alerts that fire",
            text="Open alerts of the detectors that nobody looks after.",
            queries={"": 'sum(scouter_alerts_open{space=~"$space",state="firing"}) or vector(0)'},
            line=1,
            is_number=True,
        ),
        Panel(
            title="Trouble",
            text="What keeps results from being made: `scouter alerts list` says more.",
            queries={"": 'sum(scouter_trouble{space=~"$space"}) or vector(0)'},
            line=1,
            is_number=True,
        ),
        Panel(
            title="Records that wait",
            text="For their trace or their profile.",
            queries={"": "sum(scouter_records_waiting)"},
            is_number=True,
        ),
        Panel(
            title="Judges' tasks that wait",
            text="Results are pending until a judge answers.",
            queries={"": 'sum(scouter_judge_tasks_pending{space=~"$space"})'},
            is_number=True,
        ),
    ),
    "Tasks": (
        Panel(
            title="Pass rate",
            text="Of the last 500 to 1,000 conversations or single records, with its 95 % "
            "interval, and the baseline with its lower bound. No alarm comes of this picture.",
            queries=_task_lines("pass"),
            unit="percentunit",
        ),
        _evidence(
            "Evidence of a fall",
            "The alarm is at 1 / drift_alpha, which is 100 by default.",
            kind="pass",
        ),
        _share(
            "Failures of the last hour",
            "Final results that failed, of those that passed or failed.",
            outcome="failed",
            of="passed|failed",
        ),
        Panel(
            title="Results",
            text="Final results of tasks, those of judges included. The points are traces.",
            queries={
                "{{task}} {{outcome}}": "sum by (task, outcome) "
                f"(rate(scouter_task_results_total{{{_TASKS}}}[{_WINDOW}]))"
            },
        ),
        _evidence(
            "Evidence of more errors",
            "Errors are no failures: their alarm is one about judges, data or tasks.",
            kind="error",
        ),
        _share(
            "Errors of the last hour",
            "Final results that are errors, of all that were decided.",
            outcome="errored",
            of="passed|failed|errored",
        ),
    ),
    "Records and spans": (
        Panel(
            title="Records",
            text="Accepted and evaluated: the two lines lie on each other.",
            queries={
                "{{alias}} accepted": "sum by (alias) "
                f"(rate(scouter_records_received_total{{{_OWN}}}[{_WINDOW}]))",
                "{{alias}} evaluated": "sum by (alias) "
                f"(rate(scouter_records_evaluated_total{{{_OWN}}}[{_WINDOW}]))",
            },
        ),
        Panel(
            title="Given up",
            text="Things that could not be used, and those that senders dropped.",
            queries={
                "dead letters: {{reason}}": "sum by (reason) "
                f'(rate(scouter_dead_letters_total{{space=~"$space"}}[{_WINDOW}]))',
                "dropped by senders: {{reason}}": "sum by (reason) "
                f'(rate(scouter_queue_dropped_total{{space=~"$space"}}[{_WINDOW}]))',
            },
        ),
        Panel(
            title="Time to a result",
            text="95 of 100 are faster: to the end of the join, and from there to the verdict.",
            queries={
                "join": "histogram_quantile(0.95, sum by (le) "
                f"(rate(scouter_join_wait_seconds_bucket[{_WINDOW}])))",
                "verdict": "histogram_quantile(0.95, sum by (le) "
                f"(rate(scouter_evaluation_latency_seconds_bucket[{_WINDOW}])))",
            },
            unit="s",
        ),
    ),
    "The collector": (
        Panel(
            title="Cost of judges",
            text="US dollars an hour, by model.",
            queries={
                "{{entry}} {{model}}": "sum by (entry, model) "
                "(increase(scouter_judge_cost_usd_total[1h]))"
            },
            unit="currencyUSD",
        ),
        Panel(
            title="Messages about alerts",
            text="Those that were given up are in the log of the collector.",
            queries={
                "{{channel}} {{outcome}}": "sum by (channel, outcome) "
                "(increase(scouter_alert_deliveries_total[1h]))"
            },
        ),
        Panel(
            title="Memory and store",
            text="Resident memory of the process; size of the store on disk.",
            queries={
                "memory": "sum(scouter_process_resident_memory_bytes)",
                "store": "sum(scouter_store_size_bytes)",
            },
            unit="bytes",
        ),
    ),
}
"""The panels by the title of their row."""


def dashboard_text() -> str:
    """Write the dashboard.

    Returns:
        The JSON that Grafana imports; it asks for the data source there.

    Source of the form: Grafana, "JSON model of a dashboard" and the models of its panels.
    """
    board: dict[str, Any] = {
        "uid": "scouter",
        "title": "Scouter",
        "description": "Quality of agents, and the collector that watches it. Made by: scouter "
        "profile dashboard",
        "tags": ["scouter"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(_variables())},
        "panels": [{"id": number, **each} for number, each in enumerate(_panels(), 1)],
    }
    return json.dumps(board, indent=2, ensure_ascii=False) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    """The pickers at the head: data source, space, alias, task."""
    yield {"name": "datasource", "label": "Source", "type": "datasource", "query": "prometheus"}
    series = "scouter_task_results_total"
    for name, within in (
        ("space", ""), ("alias", '{space=~"$space"}'), ("task", f"{{{_OWN}}}"),
    ):  # fmt: skip
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": _SOURCE,
            "definition": f"label_values({series}{within}, {name})",
            "query": {"query": f"label_values({series}{within}, {name})", "refId": name},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }


def _panels() -> Iterator[dict[str, Any]]:
    top = 0
    for title, panels in ROWS.items():
        place = {"h": 1, "w": _WIDTH, "x": 0, "y": top}
        yield {"type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        top += 1
        height = _HEIGHT // 2 if panels[0].is_number else _HEIGHT
        width = _WIDTH // min(len(panels), 3 + panels[0].is_number)
        for start in range(0, len(panels), _WIDTH // width):
            for column, panel in enumerate(panels[start : start + _WIDTH // width]):
                yield _panel(panel, {"h": height, "w": width, "x": column * width, "y": top})
            top += height


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    custom: dict[str, Any] = {}
    if panel.line is not None:
        steps.append({"color": "red", "value": panel.line})
        custom["thresholdsStyle"] = {"mode": "line"}
    if panel.is_log:
        custom["scaleDistribution"] = {"type": "log", "log": 10}
    defaults = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
        **({} if panel.is_number else {"custom": custom}),
    }
    return {
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query,
                "legendFormat": legend or "__auto",
                "exemplar": "scouter_task_results_total" in query and _WINDOW in query,
            }
            for number, (legend, query) in enumerate(panel.queries.items())
        ],
    }


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
