"""Care for a store: retention, backup, check, export and repair."""
