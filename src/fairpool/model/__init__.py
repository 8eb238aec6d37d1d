"""The vocabulary of Fairpool: frozen values, no I/O, standard library only."""
