"""Rules for this repository that a machine can check: `python -m tools.tidy` applies them, `make check` calls it.

A rule is a pure function from a `Tree` (the repository's files) to findings, so that tests can hand it a tree that
breaks it. `code` has the rules about Python, `words` those about names and language, `texts` those about the rest, and
`__main__` the list of all. To add a rule, write the function, list it, and give it a test that it can fail.
"""
