"""`runai`, the command of researchers. It talks to the control plane; it imports only the API client and the model."""
