"""What people talk to: it declares, clusters decide and act."""
