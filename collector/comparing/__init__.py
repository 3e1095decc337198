"""Comparisons of what is live with itself and with offline runs."""
