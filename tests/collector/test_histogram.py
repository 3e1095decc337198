"""A batch histogram shows the same as the client's own histogram."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from collector.histogram import BatchHistogram

BUCKETS = (0.005, 0.1, 1.0, 2.5, 30.0)
# Bounds themselves among them.
numbers = st.one_of(st.sampled_from(BUCKETS), st.integers(-4, 400).map(lambda n: n / 8))
batches = st.lists(st.tuples(st.sampled_from("ab"), st.lists(numbers, max_size=5)), max_size=5)


def shown(registry: CollectorRegistry) -> set[str]:
    """Every line, but when a series was made."""
    lines = generate_latest(registry).decode().splitlines()
    return {line for line in lines if "_created" not in line}


@given(batches)
def test_it_shows_what_the_clients_own_shows(batches: list[tuple[str, list[float]]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    with_label = BatchHistogram("x_seconds", "Text.", BUCKETS, label="kind", registry=ours)
    plain = BatchHistogram("y_seconds", "Text.", BUCKETS, registry=ours)
    their_label = Histogram("x_seconds", "Text.", ("kind",), buckets=BUCKETS, registry=theirs)
    their_plain = Histogram("y_seconds", "Text.", buckets=BUCKETS, registry=theirs)
    for kind, values in batches:
        with_label.observe(values, kind)
        plain.observe(values)
        child = their_label.labels(kind)
        for value in values:
            child.observe(value)
            their_plain.observe(value)
    assert shown(ours) == shown(theirs)
