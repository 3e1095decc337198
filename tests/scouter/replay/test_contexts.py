"""The contexts that the results of a replay keep for people."""

from scouter.model.record import EvalRecord
from scouter.replay.collected import contexts_of


def test_contexts_by_uid() -> None:
    """A large one is a text that says how much is gone; one without JSON form is not there."""
    small, large = EvalRecord({"answer": [1, None]}), EvalRecord({"text": "x" * 50_000})
    found = contexts_of([small, large, EvalRecord({"odd": object()})])
    assert list(found) == [small.uid, large.uid]
    assert found[small.uid] == {"answer": [1, None]}
    stored = found[large.uid]
    assert isinstance(stored, str)
    assert stored.startswith('{"text": "xxx')
    assert 20_000 <= len(stored) < 20_200
