"""The command `scouter demo`."""

import signal
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from collector.demo import report
from collector.demo.processes import DemoError, run_agent, running_collector
from scouter.cli.app import MissingExtraError

PROFILES: Final = ("support_retriever", "support_writer")
RELEASES: Final = ("1.0.0", "2.0.0")
_WAIT_S: Final = 30.0


def demo(
    conversations: Annotated[
        int, typer.Option(min=20, max=10_000, help="Questions that each release answers.")
    ] = 40,
    keep: Annotated[
        bool, typer.Option(help="Leave the collector running at the end, until Ctrl-C.")
    ] = False,
) -> None:
    """Watch an agent get worse: live through a collector, then as a release check.

    Starts a collector on a free port with its store in a temporary folder, runs two releases of a
    small support desk (pydantic-ai with a scripted model; no key, no network) and shows what
    changed. Ends by itself and leaves nothing behind.

        scouter demo
        scouter demo --conversations 200 --keep
    """
    for needed in ("duckdb", "fastapi", "pydantic_ai"):
        if find_spec(needed) is None:
            raise MissingExtraError("demo", needed)
    signal.signal(signal.SIGTERM, _interrupt)  # so that the collector and the folder go too
    console = Console()
    console.print(
        "[bold]Scouter demo[/]: a support desk of two sub-agents; release 2.0.0 has a slower tool, "
        "skips a tool call for half of the orders and answers them vaguely."
    )
    with tempfile.TemporaryDirectory(prefix="scouter-demo-") as folder:
        with running_collector(Path(folder), PROFILES) as url:
            _live(console, url, folder, conversations)
            _release_check(console)
            if keep:
                _wait_for_interrupt(console, url)
        console.print("Collector stopped, temporary store removed.")


def _live(console: Console, url: str, folder: str, conversations: int) -> None:
    """Run both releases against the collector and show what the collector saw."""
    tasks: list[report.Items] = []
    alerts: list[report.Items] = []
    with httpx.Client(base_url=url, timeout=10) as api, _progress(console) as progress:
        for position, release in enumerate(RELEASES, start=1):
            bar = progress.add_task(f"release {release} answers", total=conversations)
            run_agent(release, conversations, url, lambda bar=bar: progress.advance(bar))
            _wait_for_evaluations(api, position * conversations * len(PROFILES))
            tasks.append(_get(api, "/api/v1/tasks", service_version=release)["items"])
            alerts.append(_settled_alerts(api))
        metrics = api.get("/metrics").raise_for_status().text
    console.print(report.pass_rates(tasks[0], tasks[1], RELEASES))
    console.print(report.alerts(alerts[0], alerts[1], RELEASES))
    console.print(report.addresses(url, metrics, folder))


def _release_check(console: Console) -> None:
    """Replay the scenarios against both releases and show what the comparison says."""
    # The agent framework is only needed here and in the agents' own processes.
    from collector.demo.offline import SCENARIOS, compare_releases

    with console.status("Offline: replaying the scenarios against both releases …"):
        comparison = compare_releases(*RELEASES)
    console.print(
        f"\n[bold]Offline[/]: the same profiles and {SCENARIOS.name}, release {RELEASES[1]} "
        f"compared with {RELEASES[0]}"
    )
    comparison.as_table()
    code = comparison.exit_code
    end = "this release would have been stopped" if code else "this release may go on"
    console.print(f"[bold]{str(comparison.decision).capitalize()}: exit code {code}[/] – {end}.\n")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _get(api: httpx.Client, path: str, **params: str) -> dict[str, Any]:
    return api.get(path, params=params).raise_for_status().json()


def _wait_for_evaluations(api: httpx.Client, count: int) -> None:
    """Wait until so many records are evaluated; the agent's process has ended by now."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        sheet = _get(api, "/api/v1/conservation")
        if sheet["records"]["evaluated"] >= count:
            return
        if time.monotonic() > deadline:
            raise DemoError(f"only {sheet['records']} of {count} records after {_WAIT_S:g} s")
        time.sleep(0.1)


def _settled_alerts(api: httpx.Client) -> report.Items:
    """Read the alerts until they stand still: they follow the stored results by a moment."""
    items: report.Items = []
    while (latest := _get(api, "/api/v1/alerts")["items"]) != items:
        items = latest
        time.sleep(0.3)
    return items


def _interrupt(signum: int, frame: object) -> None:
    raise SystemExit(128 + signum)


def _wait_for_interrupt(console: Console, url: str) -> None:
    console.print(f"The page shows it all: {url}/ – press Ctrl-C to end.")
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        console.print()
