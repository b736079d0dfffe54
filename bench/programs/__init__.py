"""Programs that run beside the harness, some in peers' environments: standard library only here."""
