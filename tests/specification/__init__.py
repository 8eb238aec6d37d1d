"""The rules of scheduling as examples: each test is a sentence, a small world and what must happen in it."""
