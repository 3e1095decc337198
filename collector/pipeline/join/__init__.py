"""The join of records with the spans of their traces, in bounded memory."""
