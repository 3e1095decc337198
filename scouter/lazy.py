"""Names of a package that are imported when they are first used (PEP 562)."""

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import getsource


@cache
def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make the `__getattr__` and `__dir__` of a package from its imports for type checkers.

    Args:
        package: The package's `__name__`; each `from … import …` below its
            `if TYPE_CHECKING:` gives it names.

    Returns:
        The two functions, to be assigned to these names.
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        tree = ast.parse(getsource(sys.modules[package]))
        blocks = [node.body for node in tree.body if isinstance(node, ast.If)]
        imports = [node for body in blocks for node in body if isinstance(node, ast.ImportFrom)]
        return {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in imports
            for alias in node.names
        }

    def get(name: str) -> object:
        home = None if name.startswith("__") else homes().get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[0]), home[1])
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes()})

    return get, names
