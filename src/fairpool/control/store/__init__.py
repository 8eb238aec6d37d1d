"""SQL, and nothing else: tables, the one connection that writes, and a module per noun."""
