"""The 46 comparisons."""
