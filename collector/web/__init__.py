"""The web page: server-rendered views of what the HTTP API answers."""
