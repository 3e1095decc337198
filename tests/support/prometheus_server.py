"""A real Prometheus (and Alertmanager) on a free port, with a configuration that a test writes."""

import contextlib
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

import httpx

from tests.support.components import require_program
from tests.support.processes import ManagedProcess, free_ports, wait_until


class Alert(TypedDict):
    """One alert as Prometheus' API shows it."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    state: str
    value: str


class PrometheusServer:
    """A running Prometheus; ask it what it knows.

    Args:
        port: Its port on 127.0.0.1.
        process: The program.
    """

    def __init__(self, port: int, process: ManagedProcess) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.process = process
        self._http = httpx.Client(base_url=self.url, timeout=120)

    def close(self) -> None:
        """Close the connection to it."""
        self._http.close()

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, object]:
        answer = self._http.get(path, params=params)
        body = cast(dict[str, object], answer.json())
        assert body.get("status") == "success", body
        return cast(dict[str, object], body["data"])

    def is_ready(self) -> bool:
        """True if it serves queries."""
        with contextlib.suppress(httpx.TransportError):
            return self._http.get("/-/ready").status_code == 200
        return False

    def alerts(self, name: str | None = None, *, state: str | None = None) -> list[Alert]:
        """Active alerts, filtered by alert name and state (`pending` or `firing`)."""
        found = cast(list[Alert], self._get("/api/v1/alerts")["alerts"])
        return [
            alert
            for alert in found
            if (name is None or alert["labels"]["alertname"] == name)
            and (state is None or alert["state"] == state)
        ]

    def rules(self) -> dict[tuple[str, str, str], tuple[str, str]]:
        """Health and last error of every rule, by file, name and query."""
        groups = cast(list[dict[str, Any]], self._get("/api/v1/rules")["groups"])
        return {
            (group["file"], rule["name"], rule["query"]): (
                rule["health"], rule.get("lastError", ""),
            )
            for group in groups
            for rule in group["rules"]
        }  # fmt: skip

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Evaluate an instant query.

        Returns:
            Value by the sorted label pairs of each series.
        """
        result = cast(
            list[dict[str, object]], self._get("/api/v1/query", {"query": expression})["result"]
        )
        values: dict[tuple[tuple[str, str], ...], float] = {}
        for series in result:
            labels = cast(dict[str, str], series["metric"])
            _, text = cast(tuple[float, str], series["value"])
            values[tuple(sorted(labels.items()))] = float(text)
        return values

    def total(self, expression: str) -> float:
        """Sum of all series of an instant query; 0 if there are none."""
        return sum(self.query(expression).values())

    def wait_target_up(self, job: str, *, timeout_s: float = 30.0) -> None:
        """Wait until a job's target was scraped with success."""
        wait_until(
            lambda: self.total(f'up{{job="{job}"}}') > 0,
            what=f"Prometheus scraped {job}: {self._get('/api/v1/targets')}",
            timeout_s=timeout_s,
            every_s=0.1,
        )


@contextlib.contextmanager
def run_prometheus(config: str, rules: Mapping[str, str]) -> Generator[PrometheusServer]:
    """Run a Prometheus for the length of the block.

    Args:
        config: Text of `prometheus.yml`.
        rules: Text of further files by path relative to it.
    """
    program = require_program("prometheus", "prometheus")
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="scouter-prometheus-") as name:
        folder = Path(name)
        for path, text in {"prometheus.yml": config, **rules}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        process = ManagedProcess(
            [program, f"--config.file={folder / 'prometheus.yml'}",
             f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"],
            log=folder / "prometheus.log",
        )  # fmt: skip
        server = PrometheusServer(port, process)
        try:
            process.wait_ready(server.is_ready)
            yield server
        finally:
            server.close()
            process.stop()


@contextlib.contextmanager
def run_alertmanager(config: str) -> Generator[str]:
    """Run an Alertmanager for the length of the block.

    Args:
        config: Text of `alertmanager.yml`.

    Yields:
        Its `host:port`.
    """
    program = require_program("alertmanager", "prometheus-alertmanager")
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="scouter-alertmanager-") as name:
        folder = Path(name)
        (folder / "alertmanager.yml").write_text(config)
        process = ManagedProcess(
            [program, f"--config.file={folder / 'alertmanager.yml'}",
             f"--storage.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
             "--cluster.listen-address="],
            log=folder / "alertmanager.log",
        )  # fmt: skip
        address = f"127.0.0.1:{port}"

        def ready() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"http://{address}/-/ready", timeout=120).status_code == 200
            return False

        try:
            process.wait_ready(ready)
            yield address
        finally:
            process.stop()
