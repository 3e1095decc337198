"""Profiles, alerts, judges, live detectors, labels and runs, on either database."""

from tests.contracts.store_control import ControlContract
from tests.contracts.store_drift import StoreDriftContract
from tests.contracts.store_people import PeopleContract


class TestControl(ControlContract):
    """What people and judges say."""


class TestDrift(StoreDriftContract):
    """Live detectors."""


class TestPeople(PeopleContract):
    """Labels and runs."""
