"""The profiles' own alert conditions, watched."""
