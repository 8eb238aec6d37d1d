"""The server programs: control plane and cluster in one process (`assembly.py`), or as two programs
(`control_program.py`, `cluster_program.py`), made of the same parts.

Everything else here is what such a process needs: a directory, an address, nodes, a thread for the loop, and a socket
for the administrator's commands.
"""
