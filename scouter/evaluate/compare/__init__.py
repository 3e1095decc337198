"""Two runs held against each other, and a run against its gates."""
