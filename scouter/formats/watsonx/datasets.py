"""Ground-truth datasets: found in folders, read strictly, with file and line of what is wrong."""

from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path
from typing import Any, Final, cast

from scouter.errors import ConfigError
from scouter.evaluate.files.read import Document, dotted, read_document
from scouter.evaluate.journey.case import Case, case_of
from scouter.evaluate.journey.case_faults import Fault, faults_of

_NOT_CASES: Final = "agent.json"
"""Files whose name ends so define agents."""
_EXTENSIONS: Final = (".json", ".yaml", ".yml")


def find_datasets(
    paths: Iterable[str | Path], *, is_recursive: bool = False
) -> tuple[list[Path], list[str]]:
    """Find the files of datasets.

    Args:
        paths: Files, patterns, and folders, of which the `.json` files are taken.
        is_recursive: Look into the folders of folders, too.

    Returns:
        The files, and notes on what was left out: a path with nothing behind it, and a file whose
        name without the extension another has already.
    """
    found: dict[str, Path] = {}
    notes: list[str] = []
    for path in paths:
        files = _files(str(path), is_recursive=is_recursive)
        if not files:
            notes.append(f"{path}: there is no dataset")
        for file in files:
            known = found.setdefault(file.stem, file)
            if known != file:
                notes.append(f"{file}: left out, as {known} is called {file.stem!r}, too")
    return list(found.values()), notes


def _files(path: str, *, is_recursive: bool) -> list[Path]:
    if Path(path).is_file():  # whatever its name would mean as a pattern
        found = iter((Path(path),))
    elif Path(path).is_dir():
        found = Path(path).rglob("*.json") if is_recursive else Path(path).glob("*.json")
    else:
        found = map(Path, glob(path))
    return sorted(
        file
        for file in found
        if file.suffix.lower() in _EXTENSIONS and not file.name.endswith(_NOT_CASES)
    )


def read_dataset(path: str | Path) -> Case:
    """Read one ground-truth dataset.

    Args:
        path: A `.json`, `.yaml` or `.yml` file.

    Returns:
        The case; without `dataset_name` it is called as the file.

    Raises:
        FileFormatError: Names file, line and field of the first fault, and the number of others.
    """
    return case_of_document(read_document(path))


def case_of_document(document: Document) -> Case:
    """Make a case of a file that was parsed already; see `read_dataset`."""
    faults = faults_of(document.value)
    if faults:
        raise fault_error(document, faults)
    return case_of(cast("dict[str, Any]", document.value), Path(document.path).stem)


def fault_error(document: Document, faults: Sequence[Fault]) -> ConfigError:
    """The error for faults of a file: the first, with the places of the others."""
    first, *more = faults
    places = ", ".join(dotted(fault.loc) for fault in more[:5])
    others = f" (more faults at {places})" if more else ""
    return document.error(f"{first.problem}{others}", first.loc, first.expected)


def read_cases(files: Sequence[Path], tags: Iterable[str] = ()) -> list[Case]:
    """Read several datasets.

    Args:
        files: From `find_datasets`.
        tags: Keep cases that have one of these; without any, all.

    Raises:
        FileFormatError: A file is wrong.
        ConfigError: Two cases have one name, or none is left.
    """
    wanted = frozenset(tags)
    named: dict[str, Path] = {}
    cases: list[Case] = []
    for file in files:
        case = read_dataset(file)
        other = named.setdefault(case.name, file)
        if other != file:
            raise ConfigError(f"{file} and {other} are both called {case.name!r}; names are unique")
        if not wanted or wanted & {*case.tags}:
            cases.append(case)
    if not cases:
        why = f"no dataset has one of the tags {sorted(wanted)}" if files else "there is no dataset"
        raise ConfigError(f"{why}; expected a ground-truth file, or a folder of them")
    return cases
