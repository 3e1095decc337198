"""Tasks that a judge decides: called beside everything else, stored as the next revision."""
