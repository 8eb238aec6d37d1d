"""What tests of the control plane share."""
