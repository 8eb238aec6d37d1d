"""`runai-adm`, the command of administrators. It shares flags, output and session with `runai`."""
