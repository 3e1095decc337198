"""Settings of the collector: what can be set, how it is read, and the page about it."""
