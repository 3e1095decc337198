"""Regular expressions that come from other people."""
