"""The ready-made profiles that travel with the package."""

from pathlib import Path
from typing import Final

from scouter.errors import ConfigError

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
        raise ConfigError(f"no profile file {str(path)!r}")
    shipped = shipped_folder() / f"{path.name}.yaml"
    if path.name == str(name_or_path) and shipped.is_file():
        return shipped
    names = ", ".join(shipped_profiles())
    raise ConfigError(f"no profile file or ready-made profile {str(path)!r}; there are: {names}")
