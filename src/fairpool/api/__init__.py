"""Messages on the wire, versioned apart from the model."""
