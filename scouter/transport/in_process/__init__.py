"""The transport inside the process."""
