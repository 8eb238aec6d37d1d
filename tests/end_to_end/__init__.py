"""Tests of the command as a person uses it: real processes, real files."""
