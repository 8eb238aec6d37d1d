"""Everything that shows whether Fairpool does what it says."""
