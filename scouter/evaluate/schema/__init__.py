"""JSON Schema, checked within a bound of steps."""
