"""Many series: e-BH against a reference and by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.drift.detect.many import e_bh
from tests.support.vectors import load_vectors


def test_as_others_compute_it() -> None:
    for case in load_vectors("drift/vectors_fdr.json")["e_bh"]:
        assert list(e_bh(case["e"], case["alpha"])) == case["reject"]


def test_by_hand() -> None:
    # Two series at 10 %: one needs 20 alone, both need 10 together.
    assert e_bh([19.0, 1.0], 0.1) == (False, False)
    assert e_bh([20.0, 1.0], 0.1) == (True, False)
    assert e_bh([10.0, 10.0], 0.1) == (True, True)
    assert e_bh([], 0.1) == ()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12), st.integers(0, 11), st.floats(1, 100))
def test_more_evidence_never_takes_an_alarm_away(
    evidence: list[float], place: int, factor: float
) -> None:
    before = e_bh(evidence, 0.05)
    raised = list(evidence)
    raised[place % len(raised)] *= factor
    after = e_bh(raised, 0.05)
    assert all(now or not was for was, now in zip(before, after, strict=True))


@pytest.mark.parametrize("evidence", [[-1.0], [math.nan]])
def test_bad_evidence_is_refused(evidence: list[float]) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        e_bh(evidence, 0.05)
