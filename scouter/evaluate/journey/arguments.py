"""Arguments of a call compared with those that a goal expects."""

from collections.abc import Mapping
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.journey.asking import FuzzyChain
from scouter.evaluate.journey.case_faults import strategy_of
from scouter.evaluate.journey.result import ArgumentMatch
from scouter.evaluate.operators.equality import identity

ANY_VALUE: Final = "<IGNORE>"
"""An expected value that any value fits, and none."""
ANY_ARGS: Final = {"IGNORE": None}
"""Expected arguments that any arguments fit."""


def compare_arguments(
    expected: Mapping[str, JsonValue] | None,
    actual: Mapping[str, JsonValue],
    strategies: Mapping[str, str],
    chain: FuzzyChain,
    *,
    tool: str,
    is_quick: bool = False,
) -> tuple[ArgumentMatch, ...]:
    """Compare a call's arguments with the expected ones.

    Arguments that are not mentioned are allowed, at every level of nested objects.

    Args:
        expected: By name; None and `{"IGNORE": null}` expect nothing.
        actual: By name.
        strategies: By name or dotted path: `strict` (the same JSON value: 1 is 1.0, and neither
            "1" nor true), `fuzzy` (by the chain), `optional` (strict where present) or `ignore`.
        chain: Decides about fuzzy arguments.
        tool: Name of the tool.
        is_quick: Stop at the first that does not match, and ask for fuzzy ones last.

    Returns:
        One for each expected leaf, or those up to the first mismatch.

    Cost: linear in the arguments, and what the chain asks.
    """
    if not expected or expected == ANY_ARGS:
        return ()
    there = _places(actual)
    leaves = [(path, value) for path, value in _places(expected).items() if _is_leaf(value)]
    if is_quick:
        leaves.sort(key=lambda leaf: strategy_of(leaf[0], strategies) == "fuzzy")
    found: list[ArgumentMatch] = []
    for path, value in leaves:
        strategy = "ignore" if value == ANY_VALUE else strategy_of(path, strategies)
        found.append(_compare(path, value, strategy, there, chain, tool))
        if is_quick and not found[-1].matched:
            break
    return tuple(found)


def _compare(
    path: str,
    value: JsonValue,
    strategy: str,
    there: Mapping[str, JsonValue],
    chain: FuzzyChain,
    tool: str,
) -> ArgumentMatch:
    is_present, actual = path in there, there.get(path)
    link, similarity = "", None
    if strategy == "ignore" or (strategy == "optional" and not is_present):
        matched = True
    elif not is_present:
        matched = False
    elif value == {}:
        matched = isinstance(actual, dict)
    elif strategy == "fuzzy":
        likeness = chain.argument(value, actual, tool=tool, argument=path)
        matched, link, similarity = likeness.matched, likeness.link, likeness.similarity
    else:
        matched = identity(value) == identity(actual)
    return ArgumentMatch(
        path=path, strategy=strategy, expected=value, actual=actual, is_present=is_present,
        matched=matched, link=link, similarity=similarity,
    )  # fmt: skip


def f1_of_arguments(
    matches: tuple[ArgumentMatch, ...],
    expected: Mapping[str, JsonValue] | None,
    actual: Mapping[str, JsonValue],
) -> float | None:
    """Measure how much of a call's arguments is right.

    Args:
        matches: Result of `compare_arguments`, not quick.
        expected: The same expected arguments.
        actual: The same actual arguments.

    Returns:
        2 TP / (2 TP + FP + FN) in [0, 1]: right leaves, leaves that are not expected, and expected
        ones that are missing or wrong. Ignored leaves and absent optional ones do not count; None
        where nothing does.
    """
    if not expected or expected == ANY_ARGS:
        return None
    counted = [
        match
        for match in matches
        if match.strategy != "ignore" and (match.strategy != "optional" or match.is_present)
    ]
    right = sum(match.matched for match in counted)
    known = {match.path for match in matches}
    extra = sum(
        1
        for path, value in _places(actual).items()
        if _is_leaf(value)
        and not any(path == each or path.startswith(f"{each}.") for each in known)
    )
    total = 2 * right + extra + len(counted) - right
    return 2 * right / total if total else None


def _places(args: Mapping[str, JsonValue], above: str = "") -> dict[str, JsonValue]:
    """Every value under its dotted path, objects too."""
    found: dict[str, JsonValue] = {}
    for key, value in args.items():
        found[f"{above}{key}"] = value
        if isinstance(value, Mapping):
            found.update(_places(cast("Mapping[str, JsonValue]", value), f"{above}{key}."))
    return found


def _is_leaf(value: JsonValue) -> bool:
    return not isinstance(value, Mapping) or not value
