"""A real Apache Kafka broker (KRaft, one node) on free ports, from the jars that Maven resolves."""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, cast

from kafka import KafkaAdminClient

from tests.support.broker_security import BrokerSecurity
from tests.support.components import cache_dir, require
from tests.support.processes import ManagedProcess, free_ports, wait_until

_FILES: Final = Path(__file__).parent / "kafka"
_JAVA_MIN: Final = 17
_RESOLVE_TIMEOUT_S: Final = 300

_JVM: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A broker that shares two cores with what is tested. In so small a heap a batch is a "humongous"
object to Java's usual collector: marking took three times the broker's own work."""

_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=CLIENTS://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENTS://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENTS
listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENTS:{protocol}
log.dirs={logs}
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
"""


def find_java() -> str | None:
    """A Java program new enough for Kafka, or None."""
    java = shutil.which("java")
    if java is None:
        return None
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', shown.stderr)
    return java if version and int(version[1]) >= _JAVA_MIN else None


def resolve_jars() -> Path:
    """Fetch Kafka's jars with Maven, once; later calls find them in the cache.

    Returns:
        The folder with the jars.
    """
    pom = _FILES / "pom.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    libs = cache_dir() / f"kafka-{digest}"
    with (cache_dir() / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once share one download
        if libs.is_dir():
            return libs
        maven = shutil.which("mvn")
        require("kafka", present=maven is not None, detail="no program 'mvn' on the path")
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="kafka-") as work:
            args = ["-q", "-B", "-f", str(pom), f"-Dmaven.repo.local={work}/repository",
                    "dependency:copy-dependencies", "-DincludeScope=runtime",
                    f"-DoutputDirectory={work}/libs"]  # fmt: skip
            done = subprocess.run(
                [str(maven), *args], capture_output=True, text=True,
                timeout=_RESOLVE_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            problem = (done.stdout + done.stderr)[-2000:]
            require("kafka", present=done.returncode == 0, detail=f"Maven failed: {problem}")
            (Path(work) / "libs").rename(libs)
    return libs


class KafkaBroker:
    """One broker of our own; `stop` and `start` keep its port and its data.

    Args:
        java: The Java program.
        libs: Folder with Kafka's jars.
        folder: Empty folder for configuration, data and output.
        security: TLS and passwords; plain text if not given.
    """

    owned: bool = True
    """True: the test may stop it."""

    def __init__(
        self, java: str, libs: Path, folder: Path, security: BrokerSecurity | None = None
    ) -> None:
        self._command = [java, *_JVM, "-cp", f"{libs}/*",
                         f"-Dlog4j2.configurationFile={_FILES / 'log4j2.properties'}"]  # fmt: skip
        self._folder = folder
        self._port, controller = free_ports(2)
        self._properties = folder / "server.properties"
        properties = _PROPERTIES.format(
            port=self._port, controller=controller, logs=folder / "data",
            protocol="PLAINTEXT" if security is None else "SASL_SSL",
        )  # fmt: skip
        self._properties.write_text(properties + (security.properties if security else ""))
        self._security = security
        self._process: ManagedProcess | None = None
        formatted = libs.with_name(f"{libs.name}-formatted")
        if security is None and formatted.is_dir():
            shutil.copytree(formatted, folder / "data")
            return
        self._format()
        if security is None:  # of every broker alike: to format takes a third of a start
            made = Path(tempfile.mkdtemp(dir=libs.parent)) / "data"
            shutil.copytree(folder / "data", made)
            with contextlib.suppress(OSError):  # another worker was quicker
                made.rename(formatted)
            shutil.rmtree(made.parent)

    @property
    def bootstrap(self) -> str:
        """`host:port`, what clients connect to."""
        return f"127.0.0.1:{self._port}"

    def _format(self) -> None:
        cluster_id = "c2NvdXRlci10ZXN0cy0wMQ"  # 16 bytes in base64: a name for a lone cluster
        users = ["--add-scram", self._security.scram] if self._security else []
        subprocess.run(
            [*self._command, "kafka.tools.StorageTool", "format", "-t", cluster_id,
             "-c", str(self._properties), *users],
            check=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        assert self._process is None, "the broker runs already"
        process = ManagedProcess(
            [*self._command, "kafka.Kafka", self._properties],
            log=self._folder / "broker.log",
            cwd=self._folder,
        )
        self._process = process
        try:
            process.wait_ready(lambda: _accepts("127.0.0.1", self._port))
            if self._security is None:
                topics(self.bootstrap)  # it listens a moment before it answers
        except AssertionError:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the broker; its data stays."""
        if self._process is not None:
            self._process.stop(grace_s=30)
            self._process = None

    def restart(self) -> None:
        """Stop and start again on the same port with the same data."""
        self.stop()
        self.start()

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Inside the block, the broker does nothing and its connections stay."""
        assert self._process is not None, "the broker does not run"
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # on a busy machine it answers for a while yet
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)


class ExternalBroker:
    """A broker that somebody else runs; named by `KAFKA_BOOTSTRAP`."""

    owned: bool = False

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


def _accepts(host: str, port: int) -> bool:
    with socket.create_connection((host, port), timeout=1):
        return True


@contextlib.contextmanager
def admin(bootstrap: str) -> Generator[Any]:
    """Open an administration client and close it again."""
    # Any, because the stubs that type checkers bring along describe kafka-python 2.
    client = cast(Any, KafkaAdminClient(bootstrap_servers=bootstrap))
    try:
        yield client
    finally:
        client.close()


def topics(bootstrap: str) -> set[str]:
    """Names of all topics of the broker."""
    with admin(bootstrap) as client:
        return set(client.list_topics())


def create_topics(bootstrap: str, names: list[str], *, partitions: int = 4) -> None:
    """Create topics with equal partition counts and wait until they can be used."""
    with admin(bootstrap) as client:
        client.create_topics(
            {name: {"num_partitions": partitions, "replication_factor": 1} for name in names}
        )
        client.wait_for_topics(names)


def delete_topics(bootstrap: str, names: list[str]) -> None:
    """Delete topics and wait until they are gone."""
    with admin(bootstrap) as client:
        client.delete_topics(names)
    wait_until(
        lambda: not topics(bootstrap) & set(names), what=f"topics {names} are gone", every_s=0.1
    )


@contextlib.contextmanager
def run_broker() -> Generator[KafkaBroker | ExternalBroker]:
    """A broker for a test session: `KAFKA_BOOTSTRAP`'s, or one of our own, removed at the end."""
    external = os.environ.get("KAFKA_BOOTSTRAP")
    if external:
        yield ExternalBroker(external)
        return
    with own_broker() as broker:
        yield broker


@contextlib.contextmanager
def own_broker(security: BrokerSecurity | None = None) -> Generator[KafkaBroker]:
    """A running broker of our own, removed at the end."""
    java = find_java()
    require("kafka", present=java is not None, detail=f"no Java {_JAVA_MIN} or newer")
    assert java is not None
    libs = resolve_jars()
    with tempfile.TemporaryDirectory(prefix="scouter-kafka-") as folder:
        broker = KafkaBroker(java, libs, Path(folder), security)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()
