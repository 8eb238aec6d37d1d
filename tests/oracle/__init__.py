"""The oracle: a slow, obvious scheduler that judges the real one.

Plain objects and loops, written from the specification and sharing no code with `fairpool.scheduler` beyond the rows
it is given. From the inside out: `world` (who stands where, and undo), `shares` (fair share), `order` (whose turn),
`place` and `topology` (where a pod goes), `solve` (whom to take from), `passes` (the cycle), `outcome` (what
came of it).
"""
