"""The join and the evaluation of whole sessions."""
