"""Files for Prometheus and Grafana that are made of profiles."""
