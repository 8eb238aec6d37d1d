"""What tests of the library of GPU shares use."""
