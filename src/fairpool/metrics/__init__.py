"""Series of samples: what is measured, how it is packed, and how it is averaged. No clock, no disk, no network."""
