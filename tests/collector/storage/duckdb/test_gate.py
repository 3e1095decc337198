"""The gate that lets many in, or one alone."""

import threading

from collector.storage.duckdb.gate import Gate


def test_alone_means_alone() -> None:
    """Eight threads go in and out; whoever is alone sees none of them inside."""
    gate, inside, seen = Gate(), [0] * 8, list[int]()
    done = threading.Event()

    def use(at: int) -> None:
        while not done.is_set():
            with gate.together():
                inside[at] = 1
                inside[at] = 0

    users = [threading.Thread(target=use, args=(at,)) for at in range(8)]
    for each in users:
        each.start()
    try:
        while len(seen) < 200:
            with gate.alone(10) as is_alone:
                assert is_alone
                seen.append(sum(inside))
    finally:
        done.set()
        for each in users:
            each.join()
    assert seen == [0] * 200


def test_who_does_not_leave_is_not_waited_for_longer_than_said() -> None:
    """Nor is anybody shut out then, not even one who comes in twice."""
    gate, told = Gate(), list[bool]()

    def ask() -> None:
        with gate.alone(0.2) as is_alone:
            told.append(is_alone)

    with gate.together():
        asking = threading.Thread(target=ask)
        asking.start()
        with gate.together():
            pass
        asking.join()
    assert told == [False]
    with gate.alone(0) as is_alone:
        assert is_alone
