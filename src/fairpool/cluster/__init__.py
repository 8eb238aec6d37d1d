"""The loop that decides and acts; one per cluster."""
