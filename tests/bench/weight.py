"""Weight of an installation: the files of the package and of all that it needs, by extra.

`python -m tests.bench.weight` reads it from the environment that it runs in, which has to have
the extras. It counts the files of the wheels, without compiled ones, in MB (10^6 bytes);
`--detail` names the largest packages. Markers of other systems and Pythons are left out.
"""

import argparse
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE: Final = "scouter-agents"
INSTALLATIONS: Final = {
    "scouter-agents": (),
    "scouter-agents[otlp]": ("otlp",),
    "scouter-agents[judges]": ("judges",),
    "scouter-agents[collector]": ("collector",),
    "scouter-agents[collector,judges]": ("collector", "judges"),
}
ROOT: Final = Path(__file__).parents[2]
_OWN: Final = ("scouter", "collector", "profiles")
_SHOWN: Final = 8


def needed(extras: Iterable[str]) -> set[str]:
    """Names of all packages that an installation with some extras has, its own included.

    Raises:
        PackageNotFoundError: One of them is not installed here.
    """
    todo = [(PACKAGE, frozenset(extras))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, wanted = todo.pop()
        if (name, wanted) not in seen:
            seen.add((name, wanted))
            todo += _requirements(name, wanted)
    return {name for name, _ in seen}


def _requirements(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for line in distribution(name).requires or ():
        each = Requirement(line)
        marker = each.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonicalize_name(each.name), frozenset(each.extras)


def weight_bytes(name: str) -> int:
    """Bytes of the files of one package."""
    if name == PACKAGE:  # here it may be a link to the sources
        files = [file for folder in _OWN for file in (ROOT / folder).rglob("*") if file.is_file()]
    else:
        files = _files(distribution(name))
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc")


def _files(found: Distribution) -> list[Path]:
    paths = [Path(str(found.locate_file(file))) for file in found.files or ()]
    return [path for path in paths if path.is_file()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--detail", action="store_true", help="name the largest packages")
    options = parser.parse_args()
    for installation, extras in INSTALLATIONS.items():
        try:
            weights = {name: weight_bytes(name) for name in needed(extras)}
        except PackageNotFoundError as error:
            print(f"{installation:34} {error} is not installed here")
            continue
        total = sum(weights.values())
        print(f"{installation:34} {len(weights):3} packages {total / 1e6:6.0f} MB")
        if options.detail:
            for name in sorted(weights, key=weights.__getitem__, reverse=True)[:_SHOWN]:
                print(f"    {name:30} {weights[name] / 1e6:12.1f} MB")


if __name__ == "__main__":
    main()
