"""Control plane: the HTTP API, its database, and what it declares to clusters."""
