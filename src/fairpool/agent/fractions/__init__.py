"""Shares of a real GPU: the file that says how much a program may have, and how the library is put under it.

The library itself is in `native/`. Its file and variables are made here, for `fairpool gpu` and for pods.
"""
