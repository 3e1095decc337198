"""Records and spans: the data that everything else passes around."""
