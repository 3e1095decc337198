"""Results, comparisons and traces as tables and data frames."""
