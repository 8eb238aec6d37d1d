"""The wire: what travels between the parts of Fairpool, apart from the model so that each can move alone."""
