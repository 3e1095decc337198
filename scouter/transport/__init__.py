"""Configurations of the ways out of an agent's process."""
