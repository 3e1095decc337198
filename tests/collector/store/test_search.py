"""Spans and traces on either database, as the contracts of a store have them."""

from tests.contracts.store_events import StoreEventsContract
from tests.contracts.store_find import StoreFindContract
from tests.contracts.store_judged import StoreJudgedContract
from tests.contracts.store_search import StoreSearchContract, StoreUsageContract
from tests.contracts.store_trace_text import StoreSessionMatchContract, StoreTraceTextContract


class TestSearch(StoreSearchContract):
    """Lists of spans and traces."""


class TestFind(StoreFindContract):
    """Users, attributes, several texts, and traces that belong together."""


class TestTraceText(StoreTraceTextContract):
    """Traces with a text."""


class TestSessionMatch(StoreSessionMatchContract):
    """Sessions with a text in their spans."""


class TestUsage(StoreUsageContract):
    """The use of models, tools and agents."""


class TestJudged(StoreJudgedContract):
    """Traces by the evaluations on their records."""


class TestEvents(StoreEventsContract):
    """Log events, which are no spans."""
