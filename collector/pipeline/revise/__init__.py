"""New evaluations of stored records: late spans, other profile versions."""
