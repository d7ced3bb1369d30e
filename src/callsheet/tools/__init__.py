"""Tools: the standard for their results, the executor that runs and reports them, and built-in ones."""
