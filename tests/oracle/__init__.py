"""The oracle: a slow, plain scheduler that judges the real one.

It is written from the specification and imports nothing of `fairpool.scheduler` that decides: only rows, the policy
and the types of a plan. Read it in this order: `world` (pods and their places, what nodes and queues have left),
`shares` (fair share), `order` (whose turn it is, limits), `topology` and `place` (where a pod goes), `take` (which
pods must go), `cycle` (the passes), `outcome` (what became of every pod).
"""
