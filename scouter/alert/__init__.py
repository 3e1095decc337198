"""alert."""
