"""Spans and traces on either database, as the contracts of a store have them."""

from tests.contracts.store_search import StoreSearchContract, StoreUsageContract
from tests.contracts.store_trace_text import StoreTraceTextContract


class TestSearch(StoreSearchContract):
    """Lists of spans and traces."""


class TestTraceText(StoreTraceTextContract):
    """Traces with a text."""


class TestUsage(StoreUsageContract):
    """The use of models, tools and agents."""
