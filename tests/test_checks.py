"""The numbered checks: each has its tests, and no area of the vectors is left out."""

import ast
import re
import sys
from functools import cache
from typing import Final

import pytest

from tests.scouter.evaluate.accuracy import test_upsonic_vectors
from tests.scouter.evaluate.report import test_vss_vectors
from tests.scouter.formats.nvidia import test_nat_vectors
from tests.support.components import ROOT
from tests.support.nat_vectors import areas, count_line

LIST: Final = ROOT / "tests" / "cases" / "checks.txt"
NUMBERS: Final = range(1, 28)
AREAS: Final = {
    *test_upsonic_vectors.AREAS, *test_vss_vectors.AREAS, *test_nat_vectors.AREAS,
}  # fmt: skip
NOT_HERE: Final = {
    "nat.end_to_end", "nat.profiler_ci", "nat.red_teaming", "nat.runtime_evaluators", "nat.sizing",
    "nat.trajectory", "nat.tunable_rag", "nat.usage_stats", "upsonic.performance_print",
    "upsonic.promptlayer", "vss.compat", "vss.register",
}  # fmt: skip
"""Areas of what Scouter does not do: sizing, profiling, red teaming, other evaluators, printing."""


def read_checks() -> dict[int, list[str]]:
    """The tests of each check, by its number."""
    found: dict[int, list[str]] = {}
    number = 0
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if head := re.match(r"(\d+): ", line):
            number = int(head[1])
            assert number not in found, line
            found[number] = []
        elif line and not line.startswith("#"):
            found[number].append(line)
    return found


@cache
def names_in(file: str) -> frozenset[str]:
    """Names of the tests of a file, read without importing it."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_check_has_tests(number: int) -> None:
    ids = read_checks()[number]
    assert ids
    for each in ids:
        file, _, name = each.partition("::")
        assert name in names_in(file), each


def test_no_other_number() -> None:
    assert sorted(read_checks()) == [*NUMBERS]


def test_every_area_of_the_vectors_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert areas() <= AREAS | NOT_HERE
    assert not AREAS & NOT_HERE
    with capsys.disabled():
        print(count_line(*sorted(AREAS)))  # noqa: T201 the counts are asked for


if __name__ == "__main__":
    wanted = [int(each) for each in sys.argv[1:]] or [*NUMBERS]
    print(*(each for number in wanted for each in read_checks()[number]))  # noqa: T201 a command
