"""The meta-operator program and its text form."""
