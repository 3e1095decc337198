"""The ready-made profiles that travel with the package."""

from pathlib import Path
from typing import Final

from scouter.errors import ConfigError
from scouter.model.near import did_you_mean

_SUFFIXES: Final = (".yaml", ".yml", ".json")


def shipped_folder() -> Path:
    """The folder of ready-made profiles: inside the package when installed, else the checkout's."""
    package = Path(__file__).parents[1]
    installed = package / "shipped"
    return installed if installed.is_dir() else package.parent / "profiles"


def shipped_profiles() -> tuple[str, ...]:
    """Names of the ready-made profiles, sorted."""
    return tuple(sorted(path.stem for path in shipped_folder().glob("*.yaml")))


def find_profile(name_or_path: str | Path) -> Path:
    """Find a profile file by path, or a ready-made profile by its name.

    Raises:
        ConfigError: Neither exists; lists the ready-made names.
    """
    path = Path(name_or_path)
    if path.suffix in _SUFFIXES or path.is_file():
        if path.is_file():
            return path
        question = did_you_mean(str(path), map(str, _files_beside(path)))
        raise ConfigError(f"no profile file {str(path)!r}" + (f"; {question}" if question else ""))
    shipped = shipped_folder() / f"{path.name}.yaml"
    if path.name == str(name_or_path) and shipped.is_file():
        return shipped
    names = shipped_profiles()
    question = did_you_mean(str(path), [*names, *map(str, _files_beside(path))])
    raise ConfigError(
        f"no profile file or ready-made profile {str(path)!r}; "
        f"{question + ' ' if question else ''}there are: {', '.join(names)}"
    )


def _files_beside(path: Path) -> list[Path]:
    """Files of a folder that may be profiles, sorted."""
    try:
        return sorted(each for each in path.parent.iterdir() if each.suffix in _SUFFIXES)
    except OSError:
        return []
