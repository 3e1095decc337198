"""Files that people write: JSON, JSON lines and YAML, with errors that name the place."""
