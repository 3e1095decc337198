"""Draws of records to label."""

from scouter.agent.calibration.drawn import draw, mixed


def test_pairs_tell_nobody_which_is_which() -> None:
    """Of 2,000 records each outcome begins about half of the pairs: 300 of 600, give or take 75."""
    outcomes = {f"u{n}": n % 10 < 7 for n in range(2000)}
    places = draw(outcomes)

    assert len(places) == len({place.uid for place in places}) == 2000
    pairs = [places[at : at + 2] for at in range(0, 1200, 2)]
    assert all({outcomes[each.uid] for each in pair} == {True, False} for pair in pairs)
    assert 225 <= sum(outcomes[first.uid] for first, _ in pairs) <= 375
    lines = sorted(places[:600], key=mixed)[:300]  # as a file has them
    assert 110 <= sum(outcomes[each.uid] for each in lines) <= 190
    assert {(p.stratum, p.size) for p in places} == {("passed", 1400), ("failed", 600)}
    assert draw(outcomes | {"u0": outcomes["u0"]}) == places
