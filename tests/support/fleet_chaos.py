"""A fleet under kills, freezes and restarts, held against what was acknowledged and one collector.

Senders repeat what was not answered 200, some of it twice; some spans come late, some messages are
written into the topic by others without a key, and some are no OTLP at all.
"""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from kafka import KafkaProducer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.support.collector_process import CollectorProgram
from tests.support.fleet import Fleet, FleetMember
from tests.support.kafka_broker import KafkaBroker
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

SPANS: Final = 5
_BATCH: Final = 20
_SENDERS: Final = 4
_WAIT_S: Final = 300.0
PROFILE: Final = AgentEvalProfile(
    [
        AssertionTask("right", "answer", 3, "LessThan"),
        AssertionTask("named", "name", "n", "StartsWith"),
        TraceAssertionTask("whole", TraceAssertion.trace_span_count(), SPANS, "Equals"),
        TraceAssertionTask("clean", TraceAssertion.trace_error_count(), 0, "Equals"),
    ],
    alias="chaos",
)
_PROTOBUF: Final = {"content-type": "application/x-protobuf"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """So much of each."""

    records: int
    kills: int
    joins: int
    freezes: int
    poison: int = 15
    late: float = 0.05
    repeated: float = 0.05
    unkeyed: float = 0.05
    seed: int = 1


@dataclass(slots=True, kw_only=True)
class Report:
    """What was found, beside what was sent."""

    records: int = 0
    lost: set[str] = field(default_factory=set[str])
    double: int = 0
    spans: int = 0
    different: dict[str, object] = field(default_factory=dict[str, object])
    letters: int = 0
    rollups: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    results: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    revisions: Counter[int] = field(default_factory=Counter[int])
    settled_s: float = 0.0
    events: Counter[str] = field(default_factory=Counter[str])

    def faults(self, plan: Plan) -> list[str]:
        """What is not as it has to be."""
        found = {
            f"{len(self.lost)} lost, such as {sorted(self.lost)[:3]}": self.lost,
            f"{self.double} double": self.double,
            f"{self.spans} spans": self.spans != plan.records * SPANS,
            f"{len(self.different)} differ: {list(self.different.items())[:2]}": self.different,
            f"{self.letters} letters": self.letters != plan.poison,
            f"rollups {self.rollups - self.results} {self.results - self.rollups}": (
                self.rollups != self.results
            ),
        }
        return [what for what, is_wrong in found.items() if is_wrong]


def trace_id(number: int) -> bytes:
    """Of a record; spread over all partitions."""
    return random.Random(number).randbytes(16)


def record(number: int) -> dict[str, Any]:
    """One record: every tenth fails one task, and every fiftieth has an error in its trace."""
    context = {"answer": 7 if number % 10 == 0 else number % 3, "name": f"n{number}"}
    of = trace_id(number).hex()
    return {"uid": f"r{number}", "profile": PROFILE.alias, "trace_id": of, "context": context}


def spans(numbers: Sequence[int], places: Sequence[int]) -> bytes:
    """A request with some spans of some traces."""
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "chaos"
    group = resource.scope_spans.add().spans
    begin = 1_800_000_000_000_000_000
    for number in numbers:
        for place in places:
            span = group.add(
                trace_id=trace_id(number), span_id=(place + 1).to_bytes(8, "big"),
                parent_span_id=b"" if place == 0 else (1).to_bytes(8, "big"),
                name=f"step {place}", start_time_unix_nano=begin + place,
                end_time_unix_nano=begin + 100 - place,
            )  # fmt: skip
            if place == SPANS - 1 and number % 50 == 0:
                span.status.code = 2  # type: ignore[assignment]
    return message.SerializeToString()


class Sender:
    """Sends to one gateway or another until each request is answered 200.

    Args:
        urls: Of the gateways.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = list(urls)
        self._http = httpx.Client(timeout=120)
        self._turn = 0

    def send(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Send one request, as often as it takes."""
        until = time.monotonic() + _WAIT_S
        while True:
            self._turn += 1
            url = self._urls[self._turn % len(self._urls)]
            try:
                if self._http.post(url + path, content=body, headers=headers).status_code == 200:
                    return
            except httpx.HTTPError:
                pass  # it was killed, or stands still
            assert time.monotonic() < until, f"{path} was not taken for {_WAIT_S:g} s"
            time.sleep(0.05)

    def records(self, numbers: Sequence[int]) -> None:
        """Send records."""
        body = json.dumps({"records": [record(number) for number in numbers]}).encode()
        self.send("/v1/records", body, {"content-type": "application/json"})

    def spans(self, numbers: Sequence[int], places: Sequence[int]) -> None:
        """Send spans."""
        self.send("/v1/traces", spans(numbers, places), _PROTOBUF)

    def close(self) -> None:
        """Close its connections."""
        self._http.close()


class Chaos:
    """One run.

    Args:
        folder: For what processes leave.
        broker: Kafka; it is restarted once.
        server: PostgreSQL; it crashes once.
        topic: Of this run alone.
        plan: How much of what.
        tell: Is told how far it is.
    """

    def __init__(
        self,
        folder: Path,
        broker: KafkaBroker,
        server: PostgresqlServer,
        topic: str,
        plan: Plan,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._plan, self._tell, self._folder = plan, tell, folder
        self._broker, self._server, self._topic = broker, server, topic
        self._rng = random.Random(plan.seed)
        self.fleet = Fleet(
            folder, broker, server, topic, "--foreign-settle-s", "1s", "--quiet-s", "10s",
            partitions=12,
        )  # fmt: skip
        self.report = Report()
        self._progress = 0.0
        """The part of what disturbs that has begun."""
        self._latest: dict[str, dict[str, str]] = {}
        """Outcomes by uid and task."""

    def run(self) -> Report:
        """Do it all; returns what was found."""
        plan, fleet = self._plan, self.fleet
        try:
            api = fleet.add("api", "api")
            workers = [fleet.add("worker", f"worker-{n}") for n in range(3)]
            gateways = [fleet.add("gateway", f"gateway-{n}") for n in range(2)]
            _register(api.url)
            with ThreadPoolExecutor(_SENDERS) as pool:
                numbers = list(range(plan.records))
                parts = [numbers[at::_SENDERS] for at in range(_SENDERS)]
                urls = [each.url for each in gateways]
                sending = [pool.submit(self._send, urls, part) for part in parts]
                self._others(numbers)
                try:
                    self._disturb(workers, gateways, api)
                finally:
                    self._progress = 1.0
                for each in sending:
                    each.result()
            began = time.monotonic()
            wait_until(self._is_settled, what="all is judged", timeout_s=_WAIT_S, every_s=1.0)
            self.report.settled_s = time.monotonic() - began
            self._find()
        finally:
            fleet.close()
        self._compare(self._expected())
        return self.report

    # --- sending ----------------------------------------------------------------------------

    def _send(self, urls: Sequence[str], numbers: Sequence[int]) -> None:
        plan, rng = self._plan, random.Random(f"{self._plan.seed} {numbers[0]}")
        sender = Sender(urls)
        late: list[tuple[float, list[int]]] = []
        for at in range(0, len(numbers), _BATCH):
            while at / len(numbers) > self._progress:  # so that something comes all the time
                time.sleep(0.02)
            part = numbers[at : at + _BATCH]
            sender.records(part)
            behind = [number for number in part if rng.random() < plan.late]
            alone = [number for number in part if self._is_unkeyed(number)]
            whole = [number for number in part if number not in behind and number not in alone]
            if whole:
                sender.spans(whole, range(SPANS))
            if behind:
                sender.spans(behind, range(SPANS - 1))
                late.append((time.monotonic() + rng.uniform(1, 6), behind))
            if rng.random() < plan.repeated:
                sender.records(part)
                sender.spans(whole or behind, range(SPANS - 1))
            while late and late[0][0] <= time.monotonic():
                sender.spans(late.pop(0)[1], [SPANS - 1])
        for _, behind in late:
            sender.spans(behind, [SPANS - 1])
        sender.close()

    def _is_unkeyed(self, number: int) -> bool:
        return random.Random(f"unkeyed {number}").random() < self._plan.unkeyed

    def _others(self, numbers: Sequence[int]) -> None:
        """Write into the internal topic what no gateway has written, in any partition."""
        rng = random.Random(self._plan.seed)
        producer: Any = KafkaProducer(bootstrap_servers=self._broker.bootstrap, acks="all")
        alone = [number for number in numbers if self._is_unkeyed(number)]
        for at in range(0, len(alone), _BATCH):
            body = spans(alone[at : at + _BATCH], range(SPANS))
            producer.send(self._topic, body, partition=rng.randrange(12)).get(timeout=120)
        for number in range(self._plan.poison):
            body = b"\xff no OTLP %d" % number
            producer.send(self._topic, body, partition=rng.randrange(12)).get(timeout=120)
        producer.close()

    # --- disturbing -------------------------------------------------------------------------

    def _disturb(
        self, workers: list[FleetMember], gateways: list[FleetMember], api: FleetMember
    ) -> None:
        plan, rng = self._plan, self._rng
        steps = ["kill"] * plan.kills + ["join"] * plan.joins + ["freeze"] * plan.freezes
        rng.shuffle(steps)
        steps.insert(len(steps) // 3, "postgresql")
        steps.insert(2 * len(steps) // 3, "broker")
        guest: FleetMember | None = None
        for number, step in enumerate(steps):
            self._tell(f"{number + 1} of {len(steps)}: {step}")
            self.report.events[step] += 1
            self._progress = (number + 1) / len(steps)
            if step == "kill":
                self._again(rng.choice([*workers, *workers, *gateways, api]))
            elif step == "join" and guest is None:
                guest = self.fleet.add("worker", "worker-guest")
            elif step == "join" and guest is not None:
                guest.stop()
                guest = None
            elif step == "freeze":
                self._freeze(rng.choice(workers).process.pid, 8.0)
            elif step == "postgresql":
                self._server.crash()
                self._server.start()
            else:
                self._broker.restart()
            time.sleep(rng.uniform(0.2, 1.5))

    def _again(self, member: FleetMember) -> None:
        member.kill()
        member.start()

    def _freeze(self, pid: int, seconds: float) -> None:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    # --- finding ----------------------------------------------------------------------------

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._server.connect() as connection:
            return connection.execute(sql.encode()).fetchall()

    def _is_settled(self) -> bool:
        ((records,),) = self._rows("SELECT count(*) FROM records")
        ((judged,),) = self._rows("SELECT count(DISTINCT record_uid) FROM evaluations")
        ((whole,),) = self._rows("SELECT count(*) FROM spans")
        ((seen,),) = self._rows(
            "SELECT count(*) FROM (SELECT DISTINCT ON (record_uid) body FROM evaluations"
            " ORDER BY record_uid, revision DESC) e WHERE e.body LIKE '%\"whole\"%'"
        )
        wanted = self._plan.records
        self._tell(f"{records} records, {judged} judged, {whole} spans")
        return records == judged == seen == wanted and whole == wanted * SPANS and self._is_whole()

    def _is_whole(self) -> bool:
        """True once every latest evaluation has seen all spans."""
        ((left,),) = self._rows(
            "SELECT count(*) FROM (SELECT DISTINCT ON (record_uid) record_uid, evaluation_id"
            " FROM evaluations ORDER BY record_uid, revision DESC) e JOIN task_results t"
            " ON t.evaluation_id = e.evaluation_id WHERE t.task_id = 'whole'"
            " AND t.outcome <> 'passed'"
        )
        return left == 0

    def _find(self) -> None:
        report = self.report
        uids = [uid for (uid,) in self._rows("SELECT uid FROM records")]
        report.records = len(uids)
        report.lost = {f"r{n}" for n in range(self._plan.records)} - set(uids)
        report.double = len(uids) - len(set(uids))
        ((report.spans,),) = self._rows(
            "SELECT count(*) FROM (SELECT DISTINCT trace_id, span_id FROM spans) s"
        )
        ((rows,),) = self._rows("SELECT count(*) FROM spans")
        report.double += rows - report.spans
        report.double += len(
            self._rows(
                "SELECT 1 FROM evaluations GROUP BY record_uid, revision HAVING count(*) > 1"
            )
        )
        ((report.letters,),) = self._rows("SELECT count(*) FROM dead_letters")
        for task, outcome, n in self._rows(
            "SELECT task_id, outcome, sum(n)::BIGINT FROM rollups GROUP BY 1, 2"
        ):
            report.rollups[task, outcome] += n
        for uid, revision, task, outcome in self._rows(
            "SELECT e.record_uid, e.revision, t.task_id, t.outcome FROM (SELECT DISTINCT ON"
            " (record_uid) record_uid, revision, evaluation_id FROM evaluations"
            " ORDER BY record_uid, revision DESC) e"
            " JOIN task_results t ON t.evaluation_id = e.evaluation_id"
        ):
            report.results[task, outcome] += 1
            report.revisions[revision] += task == "whole"
            self._latest.setdefault(uid, {})[task] = outcome
        report.rollups = +report.rollups

    def _compare(self, expected: dict[str, dict[str, str]]) -> None:
        for uid, tasks in expected.items():
            found = self._latest.get(uid)
            if found != tasks:
                self.report.different[uid] = (tasks, found)

    def _expected(self) -> dict[str, dict[str, str]]:
        """What one collector of its own makes of the same."""
        folder = self._folder / "alone"
        folder.mkdir()
        alone = CollectorProgram(folder, "--foreign-settle-s", "1s")
        alone.start()
        try:
            _register(alone.url)
            sender = Sender([alone.url])
            for at in range(0, self._plan.records, 200):
                part = range(at, min(at + 200, self._plan.records))
                sender.records(part)
                sender.spans(part, range(SPANS))
            sender.close()
            alone.wait_evaluated(self._plan.records, timeout_s=_WAIT_S)
            return {
                each["uid"]: {task["task_id"]: task["outcome"] for task in each["tasks"]}
                for each in alone.evaluations()
            }
        finally:
            alone.close()


def _register(url: str) -> None:
    body = json.loads(PROFILE.model_dump_json())
    httpx.post(f"{url}/api/v1/profiles?activate=true", json=body, timeout=120).raise_for_status()
