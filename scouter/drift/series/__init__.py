"""Series of outcomes that are watched live: units, baselines, versions, alarms and recovery."""
