"""The benchmarks themselves: that they measure what they say, never how fast it is."""
