"""Tests of the house itself: its rules, its walls, its papers."""
