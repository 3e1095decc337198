"""YAML as people expect it: the 1.2 core schema, safe sizes, and a line for every value.

Only `true` and `false` are booleans (`no` is a word, also a country), dates and times stay text
and keys are always text, so that a file means the same in YAML and in JSON.
"""

import re
from typing import Any, Final, TypeAlias, cast

import yaml
from pydantic import JsonValue

from scouter.errors import FileFormatError

MAX_DEPTH: Final = 200
MAX_NODES: Final = 2_000_000
"""Values in one document after its aliases are expanded."""

Node: TypeAlias = yaml.Node

_TAG: Final = "tag:yaml.org,2002:"
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """The safe loader with other scalars."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 PyYAML reads the class attribute
    for _tag, _pattern, _first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", "-+0123456789"),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
        ("merge", r"<<", "<"),
    ):
        for _letter in _first:
            yaml_implicit_resolvers.setdefault(_letter, []).append(
                (_TAG + _tag, re.compile(rf"^(?:{_pattern})$"))
            )


def _integer(loader: object, node: yaml.ScalarNode) -> int:
    text: str = node.value
    return int(text, 16) if text.startswith("0x") else int(text)


_Loader.add_constructor(_TAG + "int", _integer)


def parse(path: str, text: str) -> tuple[JsonValue, Node]:
    """Parse one document.

    Args:
        path: The file, for errors.
        text: Its content.

    Returns:
        The value, and the tree that `line_of` reads.

    Raises:
        FileFormatError: Malformed, empty, too deep, a repeated key, or aliases that explode or
            contain themselves; names the line.

    Cost: linear.
    """
    try:
        _check_depth(path, text)
        loader = _Loader(text)
        try:
            root = cast(Node | None, loader.get_single_node())
            if root is None:
                raise FileFormatError(path, "the file is empty", expected="a list or an object")
            _Check(path).size(root)
            return cast(JsonValue, loader.construct_document(root)), root
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        words = ", ".join(part for part in (error.context, error.problem) if part)
        raise FileFormatError(path, words or "malformed", line, expected="YAML") from error
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(path, str(error).replace("\n", " "), expected="YAML") from error


def line_of(root: Node, loc: tuple[str | int, ...]) -> int:
    """Line, from 1, of the value at a place, or of the nearest one above it that exists."""
    node = root
    for part in loc:
        children: list[Node] = []
        if isinstance(node, yaml.MappingNode) and isinstance(part, str):
            children = [value for key, value in _pairs(node) if key.value == part]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            children = _items(node)[part : part + 1]
        if not children:
            break
        node = children[0]
    return _line(node)


def _check_depth(path: str, text: str) -> None:
    """Look at the depth first: libyaml's composer recurses on the C stack."""
    depth = 0
    for event in cast(Any, yaml).parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = cast(Any, event).start_mark.line + 1
                raise FileFormatError(path, f"nested more than {MAX_DEPTH} levels deep", line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Check:
    """One walk that refuses explosive or circular aliases and repeated keys; makes keys text."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._sizes: dict[int, int] = {}

    def size(self, node: Node) -> int:
        """Values below a node, itself included, with every alias expanded."""
        known = self._sizes.get(id(node))
        if known == 0:
            raise FileFormatError(self._path, "an alias contains itself", _line(node))
        if known is not None:
            return known
        self._sizes[id(node)] = 0
        total = 1 + sum(self.size(child) for child in self._children(node))
        if total > MAX_NODES:
            raise FileFormatError(self._path, f"more than {MAX_NODES} values", _line(node))
        self._sizes[id(node)] = total
        return total

    def _children(self, node: Node) -> list[Node]:
        if isinstance(node, yaml.SequenceNode):
            return _items(node)
        if not isinstance(node, yaml.MappingNode):
            return []
        seen: set[str] = set()
        for key, _ in _pairs(node):
            if not isinstance(key, yaml.ScalarNode):
                raise FileFormatError(
                    self._path, "a list or an object as a key", _line(key), expected="text"
                )
            name = cast(str, key.value)
            if name in seen:
                problem = f"the key {name!r} stands twice in one object"
                raise FileFormatError(self._path, problem, _line(key))
            seen.add(name)
            if key.tag != _TAG + "merge":
                key.tag = _TAG + "str"
        return [value for _, value in _pairs(node)]


def _pairs(node: yaml.MappingNode) -> list[tuple[Node, Node]]:
    return cast(list[tuple[Node, Node]], node.value)


def _items(node: yaml.SequenceNode) -> list[Node]:
    return cast(list[Node], node.value)


def _line(node: Node) -> int:
    return cast(Any, node).start_mark.line + 1
