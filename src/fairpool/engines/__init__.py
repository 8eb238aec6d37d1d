"""Where pods run: the one thing that differs between a machine, a Kubernetes cluster and a simulation."""
