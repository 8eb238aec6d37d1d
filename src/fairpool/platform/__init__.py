"""The platform on one machine: control plane, scheduling loop and local engine in one process on one data directory.

`assembly.py` starts and stops them. Everything else here is what such a process needs: a directory, an address, nodes,
a thread for the loop, and a socket for the administrator's commands.
"""
