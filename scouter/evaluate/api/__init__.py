"""The public classes of results: their data, with the ways to save, compare and show them."""
