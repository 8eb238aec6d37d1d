"""The commands `fairpool`, `runai` and `runai-adm`: flags, help, output and errors."""
