"""`scouter eval --push`: a collector stores the results, or a message says that none does."""

from pathlib import Path

from scouter.client.client import ScouterClient
from tests.collector.conftest import Service
from tests.scouter.cli.conftest import Scouter
from tests.support.processes import free_ports
from tests.support.served import serve

RUN = ("eval", "shop.yaml", "--agent", "shop:answer", "--profile", "answers.yaml")


def test_results_are_pushed_and_compared(tmp_path: Path, scouter: Scouter) -> None:
    """The agent's records are in the run, and what they called; a worse one differs from it."""
    service = Service(tmp_path / "there")
    with serve(service.collector.app) as url:
        for bad in ("", "paris"):
            done = scouter(*RUN, "--push", url, BAD=bad)
            assert done.returncode == 0, done.stderr
            assert f"{url}/compare?after=run:" in done.stderr
        with ScouterClient(url) as client:
            after, before = client.runs()
            assert (before.scenarios, before.scenarios_passed, before.agent) == (
                2,
                2,
                "shop:answer",
            )
            assert set(before.profiles) == {"answers"}
            found = client.comparison(before_run=before.run_id, run=after.run_id)
            assert [(each.name, each.is_worse) for each in found.changes] == [("paris", True)]
            assert found.changes[0].after.shown["answered"] == "Soon."
    service.stop()


def test_a_collector_that_is_not_there_decides_nothing(scouter: Scouter) -> None:
    (port,) = free_ports(1)
    done = scouter(*RUN, "--push", f"http://127.0.0.1:{port}")
    assert done.returncode == 0
    assert "warning: not pushed" in done.stderr
    done = scouter(*RUN, "--push", "nowhere")
    assert done.returncode == 0
    assert "warning: not pushed" in done.stderr
