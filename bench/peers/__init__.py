"""The peers: one adapter each, with the fastest settings that its own documentation gives."""
