"""The rules of Prometheus as the resource that its operator reads."""

from pathlib import Path

_ENVELOPE = """\
# Made from rules.yaml by `make monitoring`. Change it there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: jobqueue
  labels:
    app.kubernetes.io/name: jobqueue
    app.kubernetes.io/part-of: jobqueue
spec:
"""


def prometheus_rule(rules: Path) -> str:
    """Return the resource with the groups as they stand in the file, comments and all."""
    text = rules.read_text(encoding="utf-8")
    _, found, groups = text.partition("\ngroups:\n")
    assert found, f"{rules} has no groups"
    lines = ["groups:", *groups.splitlines()]
    return _ENVELOPE + "".join(f"  {line}".rstrip() + "\n" for line in lines)
