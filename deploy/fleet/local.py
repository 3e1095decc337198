"""A small fleet on this machine, without containers: `make fleet`.

Starts a Kafka, a PostgreSQL, an api, two workers and a gateway, prints where they listen, and waits
for Ctrl-C. Then all of it ends, and what it has stored is gone. It runs in a clone, as Kafka and
PostgreSQL are started in the way of the tests; what is missing on the machine is named.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest

from tests.support.kafka_broker import ExternalBroker, KafkaBroker, run_broker
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import ManagedProcess

ROLES = ("api", "worker-1", "worker-2", "gateway")
TOKENS = "scouter token create --scope ingest --postgresql"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a process listens, for HTTP and gRPC."""

    listen: str
    grpc: str


@contextlib.contextmanager
def postgresql() -> Generator[str]:
    """A PostgreSQL server of its own; gives its address."""
    server = PostgresqlServer()
    try:
        yield f"postgresql://postgres@/postgres?host={server.folder}"
    finally:
        server.stop()


@contextlib.contextmanager
def member(name: str, folder: Path, flags: Sequence[str]) -> Generator[Address]:
    """A process of the fleet, once it takes requests; gives where it listens."""
    role = name.partition("-")[0]
    ready = folder / f"{name}.json"
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SCOUTER_COLLECTOR_")}
    process = ManagedProcess(
        [sys.executable, "-m", "scouter.cli.app", "collector", "--role", role, "--fleet-name", name,
         "--data", folder / name, "--ready-file", ready, *flags],
        log=folder / f"{name}.log", env=environ,
    )  # fmt: skip
    try:
        process.wait_ready(ready.exists)
        told = json.loads(ready.read_text())
        yield Address(listen=str(told["listen"]), grpc=str(told["grpc"]))
    finally:
        process.stop(grace_s=60)


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(
    broker: KafkaBroker | ExternalBroker,
    folder: Path,
    profiles: Sequence[str],
    ports: Sequence[int],
) -> None:
    """Start all, and wait for the end."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(postgresql())
        common = ["--kafka", broker.bootstrap, "--postgresql", url, "--fleet-partitions", "4"]
        grpc, http, page = (f"127.0.0.1:{port}" for port in ports)
        with_profiles = [flag for each in profiles for flag in ("--profile", each)]
        places = {
            "api": ["--listen", page, "--grpc", "off", *with_profiles],
            "gateway": ["--listen", http, "--grpc", grpc],
        }
        found: dict[str, Address] = {}
        for name in ROLES:
            if ended.is_set():
                return
            flags = [*common, *places.get(name, ["--listen", "127.0.0.1:0", "--grpc", "off"])]
            found[name] = stack.enter_context(member(name, folder, flags))
            say(f"{name} runs at {found[name].listen}")
        workers = (f"http://{found[name].listen}/readyz" for name in ROLES if "worker" in name)
        gateway = found["gateway"]
        say(
            f"\nspans and records   http://{gateway.listen} (OTLP/gRPC: {gateway.grpc})"
            f"\npage, API, metrics  http://{found['api'].listen}/"
            f"\nworkers' probes     {' '.join(workers)}"
            f"\nKafka               {broker.bootstrap}, topic scouter.work"
            f"\nPostgreSQL          {url}"
            f"\nlogs                {folder}"
            f"\ntokens              {TOKENS} '{url}'"
            "\n\nCtrl-C ends all of it; nothing is left."
        )
        ended.wait()
        say("ending")


def main() -> int:
    """Run; the exit code is 2 if a program is missing, or something does not start."""
    parser = argparse.ArgumentParser(prog="make fleet", description=__doc__)
    parser.add_argument("--profile", action="append", default=[], metavar="FILE|NAME")
    parser.add_argument(
        "--free-ports", action="store_true", help="free ports, and not 4317 (gRPC), 4318 and 4319"
    )
    given = parser.parse_args()
    profiles = given.profile or ["agent_health"]
    ports = (0, 0, 0) if given.free_ports else (4317, 4318, 4319)
    say("Kafka and PostgreSQL start")
    try:
        with run_broker() as broker, tempfile.TemporaryDirectory(prefix="scouter-fleet-") as folder:
            run(broker, Path(folder), profiles, ports)
    except pytest.skip.Exception as missing:
        say(f"A fleet {missing}")
        return 2
    except AssertionError as error:
        say(f"{error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
