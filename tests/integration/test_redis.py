"""The whole way over a real Redis server."""

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from collector.receivers.message_servers.receiver import consumer_name
from scouter.transport.config import RedisConfig
from scouter.transport.redis import open_client
from tests.contracts.message_server import MessageServerContract
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until
from tests.support.redis_server import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A running server of this module."""
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    running.start()
    yield running
    running.stop()


class TestRedis(MessageServerContract):
    """Streams with a consumer group."""

    @pytest.fixture
    def running(self, server: RedisServer) -> Iterator[None]:
        self.server = server
        name = uuid.uuid4().hex[:8]
        self.spans, self.records = f"spans-{name}", f"records-{name}"
        self.client: Any = open_client(server.address, None, None, None, 5)
        yield
        self.client.close()

    def config(self) -> RedisConfig:
        return RedisConfig(
            address=self.server.address, spans_stream=self.spans, records_stream=self.records
        )

    def flags(self) -> list[str]:
        return [
            "--redis", self.server.address, "--redis-spans-stream", self.spans,
            "--redis-records-stream", self.records,
        ]  # fmt: skip

    def put(self, data: bytes, *, is_spans: bool) -> None:
        stream = self.spans if is_spans else self.records
        self.client.xadd(stream, {"data": data, "scouter-dropped": "full=2"})

    def left(self) -> int:
        return sum(self.client.xlen(stream) for stream in (self.spans, self.records))

    def restart(self) -> None:
        self.server.stop()
        self.server.start()

    def test_spans_that_another_consumer_took_and_did_not_store_are_a_lag(
        self, collector: Any
    ) -> None:
        """Time stands still until they are stored, or deleted as here."""

        def caught_up() -> float:
            return collector.metrics()["scouter_join_input_caught_up"]

        wait_until(lambda: caught_up() == 1, what="an empty stream is no lag")
        collector.stop()
        self.put(b"", is_spans=True)
        group = "scouter-collector"
        [[_, [(name, _)]]] = self.client.xreadgroup(group, "other", {self.spans: ">"})
        collector.start()
        ready = f"{collector.url}/readyz"
        wait_until(lambda: httpx.get(ready, timeout=120).is_success, what="a connection")
        wait_until(lambda: caught_up() == 0, what="a lag")
        self.client.xack(self.spans, group, name)
        self.client.xdel(self.spans, name)
        wait_until(lambda: caught_up() == 1, what="no lag")

    def test_what_was_trimmed_before_it_was_read_is_counted_once(self, collector: Any) -> None:
        """Kind: unread messages that a broker deletes. Thrice, with and without some that are left.

        What was read, what is pending, and what was counted at an earlier start is no loss.
        """

        def put(count: int) -> None:
            for n in range(count):
                record = {"uid": f"{uuid.uuid4().hex}-{n}", "profile": "helper"}
                body = json.dumps({"records": [{**record, "context": {"n": n}}]})
                self.put(body.encode(), is_spans=False)

        def lost() -> float:
            key = 'scouter_queue_dropped_total{reason="overtaken",space="default"}'
            return collector.metrics().get(key, 0.0)

        put(4)
        wait_until(lambda: collector.records()["accepted"] == 4, what="four are read")
        accepted = 4
        for count, kept, total in ((9, 2, 7), (5, 0, 12), (3, 3, 12)):
            collector.stop()
            put(count)
            self.client.xtrim(self.records, maxlen=kept, approximate=False)
            collector.start()
            accepted += kept
            wait_until(lambda: lost() == total, what=f"{total} are lost")  # noqa: B023
            wait_until(lambda: collector.records()["accepted"] == accepted, what="the rest")  # noqa: B023
        put(1)
        wait_until(lambda: collector.records()["accepted"] == accepted + 1, what="another one")
        assert lost() == 12

    def test_what_a_dead_consumer_took_is_read_at_the_next_start(self, collector: Any) -> None:
        """Read under the name of this collector, which died before it could acknowledge."""
        collector.stop()
        self.put(b'{"records": [{"uid": "u", "profile": "helper", "context": {}}]}', is_spans=False)
        name = consumer_name(collector.folder / "data")
        taken = self.client.xreadgroup("scouter-collector", name, {self.records: ">"})
        assert len(taken) == 1
        collector.start()
        collector.wait_evaluated(1)

    def test_two_collectors_of_one_machine_are_two_consumers(
        self, collector: Any, start_collector: Callable[..., CollectorProcess]
    ) -> None:
        """One that starts would else store again what the other one has in hand."""
        second = start_collector(*self.flags())
        wanted = {consumer_name(each.folder / "data").encode() for each in (collector, second)}

        def names() -> set[bytes]:
            found = self.client.xinfo_consumers(self.records, "scouter-collector")
            return {each["name"] for each in found}

        wait_until(lambda: names() == wanted, what="two consumers")
