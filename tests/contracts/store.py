"""Duties of every store, on any medium: the sum of the parts.

Listings, searches and log events have suites of their own: `store_lists`, `store_search`,
`store_events`.
"""

from tests.contracts.store_care import CareContract
from tests.contracts.store_control import ControlContract
from tests.contracts.store_newest import NewestContract
from tests.contracts.store_people import PeopleContract
from tests.contracts.store_reading import ReadingContract
from tests.contracts.store_telemetry import TelemetryContract
from tests.contracts.store_work import WorkContract


class StoreContract(
    TelemetryContract,
    WorkContract,
    ReadingContract,
    ControlContract,
    NewestContract,
    PeopleContract,
    CareContract,
):
    """Subclass it and give the fixtures `open_store` and `open_copy`."""
