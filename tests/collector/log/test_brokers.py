"""How far the log is behind the brokers."""

from collector.log.brokers import Brokers

SECOND_NS = 1_000_000_000


class Clock:
    """Seconds by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_log_is_behind_until_a_broker_says_otherwise() -> None:
    """Since the broker was named; and again since its last report, once that is beyond grace."""
    clock = Clock()
    brokers = Brokers(clock, grace_s=2)
    assert brokers.behind_ns() == 0
    brokers.add("kafka")
    assert (brokers.behind(), brokers.behind_ns()) == (("kafka",), 1)
    clock.now = 5
    assert (brokers.behind_ns(), brokers.lags_s()) == (5 * SECOND_NS, {"kafka": 5})
    brokers.report("kafka", 1.5)
    assert (brokers.behind(), brokers.behind_ns(), brokers.lags_s()) == ((), 0, {"kafka": 1.5})
    clock.now = 5.5
    assert brokers.behind_ns() == 0
    clock.now = 6
    brokers.report("kafka", None)
    assert brokers.behind_ns() == 2.5 * SECOND_NS
    brokers.report("kafka", 0)
    assert brokers.behind_ns() == 0


def test_the_broker_that_is_furthest_ahead_counts() -> None:
    clock = Clock()
    brokers = Brokers(clock, grace_s=2)
    for name, behind_s in (("redis", 4), ("kafka", 9), ("rabbitmq", 1)):
        brokers.add(name)
        brokers.report(name, behind_s)
    assert brokers.behind() == ("kafka", "redis")
    assert brokers.behind_ns() == 9 * SECOND_NS
    brokers.remove("kafka")
    assert brokers.behind_ns() == 4 * SECOND_NS
