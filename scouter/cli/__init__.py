"""The program `scouter`."""
