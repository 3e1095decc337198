"""Similarity of two texts, as a ratio between 0 and 1."""


def similarity(left: str, right: str) -> float:
    """Measure how much of two texts is common to both, in order.

    Args:
        left: A text of n characters.
        right: A text of m characters.

    Returns:
        2 k / (n + m), no unit, in [0, 1]; k is the length of the longest common subsequence. Two
        empty texts score 1.0. Symmetric; upper and lower case differ.

    Cost: n times m, in steps of one machine word of bits; 10,000 by 10,000 takes about 50 ms.
    Source: the normalised insertion-deletion (Indel) similarity; the subsequence's length by the
        bit-parallel algorithm of Hyyrö, Bit-parallel LCS-length computation revisited, 2004.
    """
    total = len(left) + len(right)
    return 2 * _common(left, right) / total if total else 1.0


def is_similar(left: str, right: str, least: float) -> bool:
    """Tell whether `similarity` is at least a ratio, without measuring where lengths decide."""
    shorter, total = min(len(left), len(right)), len(left) + len(right)
    if total and 2 * shorter / total < least:
        return False
    return left == right or similarity(left, right) >= least


def _common(left: str, right: str) -> int:
    """Length of the longest common subsequence.

    Bit i of `rows` is 0 where the subsequence found so far grows with `left[i]`.
    """
    places: dict[str, int] = {}
    for at, char in enumerate(left):
        places[char] = places.get(char, 0) | 1 << at
    full = (1 << len(left)) - 1
    rows = full
    for char in right:
        matches = rows & places.get(char, 0)
        rows = ((rows + matches) | (rows - matches)) & full
    return len(left) - rows.bit_count()
