"""Labels that people give records: the queue of records to label, and agreement."""
