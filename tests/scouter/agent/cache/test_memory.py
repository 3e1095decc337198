"""The cache in memory."""

import pytest

from scouter.agent.cache.memory import MemoryCache
from tests.contracts.judge_cache import JudgeCacheContract, Make


class TestMemoryCache(JudgeCacheContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self) -> Make:
        return lambda most, age, clock: MemoryCache(max_bytes=most, max_age_s=age, clock=clock)
