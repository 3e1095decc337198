"""Care of a data folder: its start, retention, copies, checks and exports."""
