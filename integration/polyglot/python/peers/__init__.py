"""Takes turns with Kazoo's recipes."""
