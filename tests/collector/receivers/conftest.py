"""Fixtures of the tests of Kafka."""

import uuid

import pytest


@pytest.fixture
def topics() -> tuple[str, str]:
    """Names that no other test uses."""
    name = uuid.uuid4().hex[:12]
    return f"test.spans.{name}", f"test.records.{name}"
