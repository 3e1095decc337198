"""The command `scouter mcp`: tools that let a coding agent ask a collector."""
