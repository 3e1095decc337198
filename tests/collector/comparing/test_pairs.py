"""Pairs at every look: wider than at one look, and sure of less."""

import pytest

from collector.comparing.comparison import at_every_look
from scouter.evaluate.api.comparison import ComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.replay.reports.decision import Decision, Policy, Word, decide
from tests.support.replay_results import record


def found(fell: int, of: int = 40) -> tuple[ComparisonResults, Decision]:
    """Records that all passed before; so many fail now."""
    before = EvalResults([record(f"r{at}", {"right": True}) for at in range(of)])
    after = EvalResults([record(f"r{at}", {"right": at >= fell}) for at in range(of)])
    compared = ComparisonResults.of(before, after)
    return compared, decide(None, compared, (), Policy())


@pytest.mark.parametrize(("fell", "word"), [(12, Word.REGRESSED), (5, Word.INCONCLUSIVE)])
def test_a_fall_has_to_be_surer(fell: int, word: Word) -> None:
    """Five of five that changed fell: (1/2)^5 = 0.03, which is enough at one look only."""
    compared, decision = found(fell)
    assert decision.word is Word.REGRESSED
    rates, again = at_every_look(compared.rates, decision)
    assert again.word is word
    for was, now in zip(compared.rates, rates, strict=True):
        assert now.interval[0] <= was.interval[0] <= was.interval[1] <= now.interval[1]
        assert was.p_value is not None
        assert now.p_value is not None
        assert now.p_value > was.p_value
        assert now.adjusted_p is not None
        assert now.adjusted_p >= now.p_value
    if word is Word.INCONCLUSIVE:
        assert again.exit_code == 3
        assert again.reasons[0].startswith("not sure at every look: records passed")


def test_what_did_not_fall_stays_so() -> None:
    compared, decision = found(0)
    rates, again = at_every_look(compared.rates, decision)
    assert again == decision
    assert not any(row.regressed for row in rates)
