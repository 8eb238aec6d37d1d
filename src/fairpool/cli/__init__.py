"""The commands `fairpool`, `runai`, `runai-adm` and `rntop`: flags, help, output and errors."""
