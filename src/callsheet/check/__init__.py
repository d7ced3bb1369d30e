"""What is wrong with what others made: so far, with the code of tools (`callsheet.check.lint`)."""
