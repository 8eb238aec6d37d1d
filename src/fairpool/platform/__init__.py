"""The platform on one machine: control plane, cluster loop and local engine as one process on one folder of data.

`platform.py` joins them. Everything else here is what such a process needs around it: a folder, an address, machines,
a thread for the loop, a way for the commands beside it to ask how it is.
"""
