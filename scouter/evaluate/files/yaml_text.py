"""YAML as people expect it: the 1.2 core schema, safe sizes, and a line for every value.

Only `true` and `false` are booleans (`no` is a word, also a country), dates and times stay text
and keys are always text, so that a file means the same in YAML and in JSON. Values that JSON lacks
are refused: other tags, infinities and NaN.
"""

import re
from math import isfinite
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, cast

import yaml
from pydantic import JsonValue

from scouter.errors import FileFormatError

MAX_DEPTH: Final = 200
MAX_NODES: Final = 2_000_000
"""Values in one document after its aliases are expanded."""

Node: TypeAlias = yaml.Node

_TAG: Final = "tag:yaml.org,2002:"
_TOO_DEEP: Final = "maximum nesting depth"
"""libyaml reads ahead, and has a limit of its own since PyYAML 6.0.4."""
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_WORDS: Final[dict[str, dict[str, JsonValue]]] = {
    "bool": {"true": True, "True": True, "TRUE": True, "false": False, "False": False,
             "FALSE": False},
    "null": dict.fromkeys(("~", "null", "Null", "NULL", "")),
}  # fmt: skip
_PATTERNS: Final = {
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    "merge": "<<",
}
_NUMBERS: Final = {kind: re.compile(_PATTERNS[kind]).fullmatch for kind in ("int", "float")}
_BASES: Final = {"0x": 16, "0o": 8}
_UNPRINTABLE: Final = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


class _Loader(_Base):
    """The safe loader with other scalars; only its parser and composer are used."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 PyYAML reads the class attribute
    for _kind, _pattern, _first in (
        ("bool", "|".join(_WORDS["bool"]), "tTfF"),
        ("null", "|".join(_WORDS["null"]), ["~", "n", "N", ""]),
        ("int", _PATTERNS["int"], "-+0123456789"),
        ("float", _PATTERNS["float"], "-+.0123456789"),
        ("merge", _PATTERNS["merge"], "<"),
    ):
        for _letter in _first:
            yaml_implicit_resolvers.setdefault(_letter, []).append(
                (_TAG + _kind, re.compile(rf"^(?:{_pattern})\Z"))
            )


def parse(path: str, text: str) -> tuple[JsonValue, Node]:
    """Parse one document.

    Args:
        path: The file, for errors.
        text: Its content.

    Returns:
        The value, and the tree that `line_of` reads. Parts that aliases share are shared in the
        value, too.

    Raises:
        FileFormatError: Malformed, empty, too deep, a repeated key, a tag or a number that JSON
            lacks, or aliases that explode or contain themselves; names the line, and for a value
            that is too deep its outermost key.

    Cost: linear; about one second per megabyte.
    """
    loader: Any = None
    try:
        _check_depth(path, text)
        loader = _Loader(text)
        root = cast(Node | None, loader.get_single_node())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        if _TOO_DEEP in (error.problem or ""):
            raise _too_deep(path, text, line) from error
        words = ", ".join(part for part in (error.context, error.problem) if part)
        raise FileFormatError(path, words or "malformed", line, expected="YAML") from error
    except yaml.YAMLError as error:
        line = _unprintable_line(text)
        raise FileFormatError(path, _one_line(str(error)), line, expected="YAML") from error
    finally:
        if loader is not None:
            loader.dispose()
    if root is None:
        raise FileFormatError(path, "the file is empty", expected="a list or an object")
    return _Build(path).built(root).value, root


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _unprintable_line(text: str) -> int | None:
    """The line of the first letter that YAML does not allow."""
    found = _UNPRINTABLE.search(text)
    return None if found is None else text.count("\n", 0, found.start()) + 1


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
                raise _too_deep(path, text, cast(Any, event).start_mark.line + 1)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _too_deep(path: str, text: str, line: int | None) -> FileFormatError:
    problem = f"nested more than {MAX_DEPTH} levels deep"
    return FileFormatError(path, problem, line, _last_key(text))


def _last_key(text: str) -> str | None:
    """The last key of the document's own object in front of what is too deep."""
    key: str | None = None
    depth, is_object = 0, False
    try:
        for event in cast(Any, yaml).parse(text, Loader=_Loader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                is_object = isinstance(event, yaml.MappingStartEvent) if depth == 1 else is_object
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.ScalarEvent) and is_object and depth == 1:
                key = cast(str, cast(Any, event).value)
            if depth > MAX_DEPTH:
                break
    except yaml.YAMLError:
        pass  # libyaml's own limit, which brought the caller here
    return None if key is None else _cut(key)


class _Built(NamedTuple):
    value: JsonValue
    size: int
    """Values in it, itself included, with every alias expanded."""
    depth: int


class _Build:
    """One walk from nodes to values, which refuses what a file from elsewhere may try."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._done: dict[int, _Built | None] = {}
        """Built values, by the id of their list or object; None while one is being built."""
        self._merged = 0
        """Keys that `<<` has copied."""

    def built(self, node: Node) -> _Built:
        if isinstance(node, yaml.ScalarNode):
            return _Built(self._scalar(node), 1, 0)
        if id(node) in self._done:
            known = self._done[id(node)]
            if known is None:
                self._refuse("an alias contains itself", node)
            return known
        self._done[id(node)] = None
        is_list = isinstance(node, yaml.SequenceNode)
        if node.tag != _TAG + ("seq" if is_list else "map"):
            self._refuse(f"the tag {_cut(_short(node.tag))!r} is not known", node)
        made = self._array(node) if is_list else self._object(cast(yaml.MappingNode, node))
        if made.size > MAX_NODES:
            self._refuse(f"more than {MAX_NODES} values", node)
        if made.depth > MAX_DEPTH:
            self._refuse(f"nested more than {MAX_DEPTH} levels deep", node)
        self._done[id(node)] = made
        return made

    def _array(self, node: yaml.SequenceNode) -> _Built:
        parts = [self.built(child) for child in _items(node)]
        return _sum([part.value for part in parts], parts)

    def _object(self, node: yaml.MappingNode) -> _Built:
        own: dict[str, JsonValue] = {}
        merged: dict[str, JsonValue] = {}
        parts: list[_Built] = []
        for key, child in _pairs(node):
            if not isinstance(key, yaml.ScalarNode):
                self._refuse("a list or an object as a key", key, "text")
            part = self.built(child)
            parts.append(part)
            name = cast(str, key.value)
            if key.tag == _TAG + "merge":
                self._merge(merged, part.value, key)
            elif name in own:
                self._refuse(f"the key {_cut(name)!r} stands twice in one object", key)
            else:
                own[name] = part.value
        return _sum({**merged, **own} if merged else own, parts)

    def _merge(self, into: dict[str, JsonValue], value: JsonValue, node: Node) -> None:
        """Take the keys of `<<: *other`, or of a list of others, of which the first wins."""
        for other in value if isinstance(value, list) else [value]:
            if not isinstance(other, dict):
                self._refuse("'<<' takes in something that is no object", node, "an object")
            self._merged += len(other)
            if self._merged > MAX_NODES:
                self._refuse(f"more than {MAX_NODES} values", node)
            for name, item in other.items():
                into.setdefault(name, item)

    def _scalar(self, node: yaml.ScalarNode) -> JsonValue:
        text, kind = cast(str, node.value), _short(node.tag)
        if kind in {"str", "merge"}:
            return text
        if kind in _WORDS and text in _WORDS[kind]:
            return _WORDS[kind][text]
        if kind not in _NUMBERS and kind not in _WORDS:
            self._refuse(f"the tag {_cut(kind)!r} is not known", node)
        if kind in _WORDS or not _NUMBERS[kind](text):
            self._refuse(f"{_cut(text)!r} is no {kind}", node)
        return self._number(text, kind, node)

    def _number(self, text: str, kind: str, node: Node) -> int | float:
        if kind == "int":
            try:
                number = int(text, _BASES.get(text[:2], 10))
                str(number)  # of base 16 Python reads more digits than it writes
                return number
            except ValueError:
                self._refuse(f"a number of {len(text)} digits", node, "at most 4300")
        try:
            value = float(text)
        except ValueError:  # .inf and .nan are written without a dot in Python
            value = float("nan")
        if not isfinite(value):
            self._refuse(f"{_cut(text)!r} is no JSON value", node, "a finite number, or a text")
        return value

    def _refuse(self, problem: str, node: Node, expected: str | None = None) -> NoReturn:
        raise FileFormatError(self._path, problem, _line(node), expected=expected)


def _sum(value: JsonValue, parts: list[_Built]) -> _Built:
    size = 1 + sum(part.size for part in parts)
    return _Built(value, size, 1 + max((part.depth for part in parts), default=0))


def _short(tag: str) -> str:
    return tag.removeprefix(_TAG)


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _pairs(node: yaml.MappingNode) -> list[tuple[Node, Node]]:
    return cast(list[tuple[Node, Node]], node.value)


def _items(node: Node) -> list[Node]:
    return cast(list[Node], node.value)


def _line(node: Node) -> int:
    return cast(Any, node).start_mark.line + 1
