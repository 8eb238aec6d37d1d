"""The commands, and the only room that joins others: reads files and flags, asks the rooms below, draws answers."""
