"""Reverse proxy for the web tools that run in pods: notebooks, dashboards, models."""
