"""Records, sessions and letters on either database, as the contracts of a store have them."""

from tests.contracts.store_records import StoreRecordsContract
from tests.contracts.store_text import StoreTextContract


class TestRecords(StoreRecordsContract):
    """Lists and histories."""


class TestText(StoreTextContract):
    """Records with a text."""
