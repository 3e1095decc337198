"""The tree of sections and fields of a report, and how each is scored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scouter.errors import ConfigError
from scouter.evaluate.files.read import read_document
from scouter.evaluate.report.field_metrics import METRICS
from scouter.evaluate.report.rules import Compat

AVERAGE: Final = "average"
JUDGE: Final = "llm_judge"
_KNOWN: Final = (*sorted(METRICS), AVERAGE, JUDGE)


class FieldConfig(BaseModel):
    """One section or field.

    Args:
        method: `exact_match`, `f1`, `regex`, `non_empty`, `llm_judge`, or `average` of the fields
            inside; without one the judge compares the whole.
        fields: Those inside, by name.
        allow_dynamic_field_discovery: Whether fields of the report that are not listed are judged
            as well: the judge finds their counterparts.
        recall_penalty: Whether a reference's field that no discovered field matches counts 0 in
            the average.

    Raises:
        pydantic.ValidationError: There is no such key, or nothing to take the average of.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str | None = None
    fields: "dict[str, FieldConfig] | None" = Field(default=None)
    allow_dynamic_field_discovery: bool = False
    recall_penalty: bool = False

    @model_validator(mode="before")
    @classmethod
    def _has_fields(cls, data: object) -> object:
        if isinstance(data, Mapping):
            given = cast("Mapping[str, object]", data)
            if "fields" in given and not given["fields"]:
                raise ValueError("If 'fields' is specified, it must contain at least one field.")
        return cast("object", data)

    @model_validator(mode="after")
    def _averages_something(self) -> Self:
        if self.method == AVERAGE and not (self.fields or self.allow_dynamic_field_discovery):
            raise ValueError(
                "method 'average' needs 'fields', or allow_dynamic_field_discovery: true"
            )
        return self

    def nodes(self) -> "Iterator[FieldConfig]":
        """This node and all below it."""
        yield self
        for field in (self.fields or {}).values():
            yield from field.nodes()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """The whole tree, under the name of its root."""

    root_key: str
    root: FieldConfig

    @staticmethod
    def of(data: object, compat: Compat = "sound") -> "MetricsConfig":
        """Read the tree from plain data.

        Raises:
            ConfigError: There is not exactly one root, or no such method.
            pydantic.ValidationError: A node is wrong.
        """
        given = dict(cast("Mapping[str, object]", data)) if isinstance(data, Mapping) else {}
        if len(given) != 1:
            raise ConfigError(
                f"Config must have exactly one root key, found {len(given)}: {list(given)}"
            )
        [(root_key, node)] = given.items()
        found = MetricsConfig(root_key=root_key, root=FieldConfig.model_validate(node))
        unknown = [name for name in found.methods(compat) if name not in _KNOWN]
        if unknown and compat == "sound":
            raise ConfigError(f"method {unknown[0]!r}: expected one of {', '.join(_KNOWN)}")
        return found

    @staticmethod
    def from_file(path: str | Path, compat: Compat = "sound") -> "MetricsConfig":
        """Read the tree from a YAML or JSON file.

        Raises:
            FileFormatError: Names file, line and field.
        """
        document = read_document(path)
        try:
            return MetricsConfig.of(document.value, compat)
        except ValidationError as error:
            root = next(iter(cast("dict[str, object]", document.value)))
            raise document.wrap(error, (root,), FieldConfig) from error
        except ConfigError as error:
            raise document.error(str(error)) from error

    def methods(self, compat: Compat = "sound") -> list[str]:
        """The metrics that have to be there, sorted.

        In `sound` those that will be used; the originals want a judge wherever an average is
        taken.
        """
        found = set[str]()
        for node in self.root.nodes():
            asks = node.method is None or node.allow_dynamic_field_discovery
            if asks or (node.method == AVERAGE and compat != "sound"):
                found.add(JUDGE)
            if node.method is not None and node.method != AVERAGE:
                found.add(node.method)
        return sorted(found)
