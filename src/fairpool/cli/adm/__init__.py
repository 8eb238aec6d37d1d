"""`runai-adm`: the administrator's command. Made of the same parts as `runai`."""
