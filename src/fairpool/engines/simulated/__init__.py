"""Nodes and pods that exist only as values: everything takes its time and nothing happens but by a seed."""
