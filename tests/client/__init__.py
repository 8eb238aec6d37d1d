"""Tests with the original's own REST client, which knows nothing of Fairpool."""
