"""The command `rntop`: GPU usage of machines that are not managed by the platform, over SSH."""
