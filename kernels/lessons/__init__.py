"""The lesson engine: finds the blocks of a page, runs them, compares what they print, shows it with its evidence."""
