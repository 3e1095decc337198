"""Two runs compared with each other, and a run with its gates."""
