"""Does every input end with a result or a short message? Broken networks and chips through the real command line."""
