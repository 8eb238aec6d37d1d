"""A whole cluster in one process on a virtual clock: what `fairpool simulate` runs, counts and draws."""
