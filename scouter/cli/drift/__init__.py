"""The commands `scouter drift …`."""
