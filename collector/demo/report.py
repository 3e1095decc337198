"""Tables and panels of the demo, made from the collector's API."""

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

Items = list[dict[str, Any]]

_WORSE: Final = 0.05


def pass_rates(before: Items, after: Items, versions: tuple[str, str]) -> Table:
    """Put the pass rates of two releases side by side, per alias and task.

    Args:
        before: `items` of `GET /api/v1/tasks` for the first release.
        after: The same for the second one.
        versions: Names of the releases.
    """
    table = Table(title="Live: pass rate per alias and task", title_justify="left")
    table.add_column("alias and task", no_wrap=True)
    for version in versions:
        table.add_column(f"release\n{version}", justify="right", no_wrap=True)
    table.add_column("change", justify="right", no_wrap=True)
    table.add_column(f"not passed\nin {versions[1]}")
    later = {(item["alias"], item["task_id"]): item for item in after}
    alias = None
    for item in sorted(before, key=lambda item: item["alias"]):
        other = later.get((item["alias"], item["task_id"]))
        if alias != item["alias"]:
            table.add_section()
            table.add_row(Text(item["alias"], "bold"))
        alias = item["alias"]
        change = _change(item, other)
        name = f"  {item['task_id']}"
        table.add_row(name, _rate(item), _rate(other), change, _why(other))
    return table


def alerts(before: Items, after: Items, versions: tuple[str, str]) -> RenderableType:
    """Show each alert after each release: state, rate with its interval, condition."""
    lines: list[RenderableType] = []
    for version, items in zip(versions, (before, after), strict=True):
        for item in items:
            style = "bold red" if item["state"] == "firing" else "green"
            text = Text(f"after {version}  ", "dim")
            text.append(f"{item['state'].upper():<8}  ", style)
            text.append(item["alias"], "bold")
            text.append(
                f"  {item['pass_rate']:.1%} of the last {item['n']} records passed "
                f"(95 % interval {item['lower']:.1%} to {item['upper']:.1%})"
            )
            lines.append(text)
    conditions = sorted({item["condition"] for item in after})
    lines.append(Text(f"fires when the whole interval says: {' or '.join(conditions)}", "dim"))
    title = "The profiles' own alerts, by the collector"
    return Panel(Group(*lines), title=title, title_align="left")


def addresses(url: str, metrics: str, data: str) -> RenderableType:
    """Say where to look, with the series that Prometheus would alert on."""
    series = [
        line
        for line in metrics.splitlines()
        if line.startswith("scouter_evaluations_total") and "names_the_order" in line
    ]
    text = Text()
    for name, value in (
        ("page", f"{url}/"),
        ("metrics", f"{url}/metrics"),
        ("evaluations", f"{url}/api/v1/evaluations?outcome=failed"),
        ("alerts", f"{url}/api/v1/alerts"),
        ("conservation", f"{url}/api/v1/conservation"),
        ("API document", f"{url}/openapi.json"),
        ("store", data),
    ):
        text.append(f"{name:<14}", "bold")
        text.append(f"{value}\n")
    text.append("\n" + "\n".join(series), "dim")
    text.append("\nThese are there while it runs: --keep leaves it running.", "dim")
    return Panel(text, title="Where to look", title_align="left")


def _rate(item: dict[str, Any] | None) -> str:
    if item is None or item["pass_rate"] is None:
        return "–"
    return f"{item['pass_rate']:.0%} ({item['passed']}/{item['total']})"


def _why(item: dict[str, Any] | None) -> str:
    names = ("failed", "errored", "skipped")
    return ", ".join(f"{item[name]} {name}" for name in names if item and item[name])


def _change(before: dict[str, Any], after: dict[str, Any] | None) -> Text:
    if after is None or before["pass_rate"] is None or after["pass_rate"] is None:
        return Text("–")
    change = after["pass_rate"] - before["pass_rate"]
    if abs(change) < 0.005:
        return Text("=", "dim")
    return Text(f"{100 * change:+.0f} pp", "bold red" if change < -_WORSE else "")
