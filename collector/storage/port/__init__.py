"""The port of a store, and the plain rows that pass through it."""
