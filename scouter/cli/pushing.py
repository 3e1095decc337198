"""Results of a run, sent to a collector that keeps them."""

import typer

from scouter.cli.asking import connect
from scouter.errors import ScouterError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.model.visible import one_line


def push_run(results: ScenarioEvalResults, url: str) -> None:
    """Send results, and say where they can be looked at.

    A failure is told and raises nothing: the results decide about a release, and not whether
    somebody keeps them.
    """
    try:
        with connect(url, None) as client:
            kept = client.push_run(results)
    except ScouterError as error:
        typer.echo(f"scouter: warning: not pushed: {one_line(str(error))}", err=True)
        return
    address = f"{client.url}/compare?after=run:{kept.run_id}"
    typer.echo(f"pushed as {kept.run_id}: {address}", err=True)
