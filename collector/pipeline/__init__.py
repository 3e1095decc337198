"""From committed spans and records to stored evaluations."""
