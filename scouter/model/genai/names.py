"""Names of tools with the prefix of their framework, and without."""

import re
from typing import Final

_MCP: Final = re.compile(r"mcp__.+?__(?=.)")
_PLUGIN: Final = re.compile(r"[A-Z]\w*-(?=\w)")
_CALL: Final = ".__call__"


def bare_name(name: str) -> str:
    """Take the framework's part off a tool's name: `mcp__travel__book` is `book`.

    So are `Travel-book` of Semantic Kernel and `book.__call__`.
    """
    bare = name.removesuffix(_CALL) or name
    for prefix in (_MCP, _PLUGIN):
        if found := prefix.match(bare):
            return bare[found.end() :]
    return bare


def is_called(name: str, asked: str) -> bool:
    """Tell whether a tool is the one asked for, by its name or its bare name."""
    return name == asked or bare_name(name) == asked
