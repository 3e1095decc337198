"""Models take their arguments by position, in the original's order."""

from typing import Any

import pytest

from scouter.alert.config import AgentAlertConfig
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.transport.config import BatchConfig
from tests.scouter.queue.profiles import profile

CONFIG: Any = AgentEvalConfig
BATCH: Any = BatchConfig


def test_the_originals_order() -> None:
    alert = AgentAlertConfig(window=30)
    assert CONFIG("s", "n", "1", 0.5, alert) == AgentEvalConfig(
        space="s", name="n", version="1", sample_ratio=0.5, alert_config=alert
    )
    assert CONFIG("s", name="n") == AgentEvalConfig(space="s", name="n")
    assert BATCH(100, 200, 50) == BatchConfig(
        max_queue_size=100, scheduled_delay_ms=200, max_export_batch_size=50
    )


def test_mistakes_are_those_of_a_function() -> None:
    with pytest.raises(TypeError, match="AgentEvalConfig takes space, name, version"):
        CONFIG(1, 2, 3, 4, 5, 6)
    with pytest.raises(TypeError, match="BatchConfig got 'max_queue_size' twice"):
        BATCH(1, max_queue_size=1)


def test_files_are_read_as_before() -> None:
    given = profile("a")
    assert AgentEvalProfile.model_validate_json(given.model_dump_json()) == given
