"""Programs for people who work on Fairpool; nothing here is part of the installed package."""
