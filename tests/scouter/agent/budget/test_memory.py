"""The ledger in memory."""

import pytest

from scouter.agent.budget.memory import MemoryLedger
from tests.contracts.ledger import LedgerContract, Make


class TestMemoryLedger(LedgerContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self) -> Make:
        return MemoryLedger
