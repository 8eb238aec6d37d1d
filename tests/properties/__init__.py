"""What must hold for every plan, over generated snapshots."""
