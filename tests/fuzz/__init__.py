"""Mixed fuzz of every route: generated requests and mutations of them, sent by callers with every role."""
