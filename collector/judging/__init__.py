"""Tasks that a judge decides: asked beside everything else, stored as the next revision."""
