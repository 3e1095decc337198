"""Sessions by conditions on the whole of them, on either database."""

from tests.contracts.store_sessions import StoreSessionsContract


class TestSessions(StoreSessionsContract):
    """Lists and counts."""
