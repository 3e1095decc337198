"""The ways of results to be shown in a notebook; what is heavy loads when one is."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scouter.evaluate.show.notebook import Picture


class Shown:
    """Results that a notebook shows as a table, and that make a data frame."""

    def to_dataframe(self, polars: bool = False) -> Any:  # noqa: ANN401 — pandas or polars
        """Make a data frame: a row for each task result, rate or item.

        `scouter.evaluate.show.frame` lists the columns of task results.

        Args:
            polars: A polars frame instead of a pandas one.

        Raises:
            TypeError: `polars` is neither True nor False.
            ConfigError: The library is not installed; says how to install it.
        """
        from scouter.evaluate.show.notebook import frame_of

        return frame_of(self, polars)

    def _repr_html_(self) -> str:
        """Show the results as a table."""
        from scouter.evaluate.show.notebook import html_of

        return html_of(self)


class Drawn(Shown):
    """Results with rates, which a picture shows."""

    def plot(self) -> "Picture":
        """Draw each rate, or its change, with its 95 % interval; a notebook shows the picture."""
        from scouter.evaluate.show.notebook import picture_of

        return picture_of(self)
