"""Rates of counts, as version 1.6.9 of the original rounds them; None where it has NaN."""


def tool_rates(expected: int, correct: int, total: int) -> tuple[float | None, float | None]:
    """Rate calls of tools.

    Args:
        expected: Goals that want a call.
        correct: Those that were met.
        total: Calls that were made.

    Returns:
        Recall and precision to two places; None without such goals.
    """
    if not expected:
        return None, None
    return round(correct / expected, 2), round(correct / total, 2) if total else 0.0


def completion(
    expected: int, correct: int, *, others: int, met_others: int, recall: float | None
) -> float | None:
    """Rate a journey.

    Args:
        expected: Goals that want a call.
        correct: Those that were met.
        others: Texts, interactions and statements that are wanted.
        met_others: Those of them that were met.
        recall: The result where only calls are wanted.

    Returns:
        Share of the wanted items that were met, to two places.
    """
    return round((correct + met_others) / (expected + others), 2) if others else recall
