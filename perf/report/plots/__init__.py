"""The figures, one module for each kind of measurement; `drawing` holds what they share."""
