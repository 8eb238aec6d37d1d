"""Tests of the repository itself: import rules, house rules, messages."""
