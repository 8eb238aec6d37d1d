"""`runai`: the researcher's command. Speaks to the control plane and knows no other room but the API and the model."""
