"""The store in one DuckDB file."""
