"""The collector's store: everything that was accepted and decided, in one DuckDB file."""
