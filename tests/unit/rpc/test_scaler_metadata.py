"""What may stand in the metadata of a trigger, and how it is told when it may not (R-10.2)."""

import re
from pathlib import Path

import pytest
import yaml

from jobqueue.domain.limits import Limits
from jobqueue.domain.scaling import Mode, Trigger
from jobqueue.errors import InvalidArgument
from jobqueue.rpc.scaler_metadata import metric_name, read_trigger

LEAST = {"queues": "a", "targetPerReplica": "4"}


def read(**metadata: str) -> Trigger:
    return read_trigger(LEAST | metadata, Limits())


def faults(metadata: dict[str, str]) -> list[str]:
    with pytest.raises(InvalidArgument) as caught:
        read_trigger(metadata, Limits())
    return [violation.field for violation in caught.value.violations]


def test_queues_and_target_are_enough() -> None:
    assert read_trigger(LEAST, Limits()) == Trigger(frozenset({"a"}), 4.0, 0.0, Mode.DEPTH)


def test_all_that_may_be_said_is_heard() -> None:
    trigger = read(queues=" a, b ,a", targetPerReplica="0.5", activation="2", mode="drain")
    assert trigger == Trigger(frozenset({"a", "b"}), 0.5, 2.0, Mode.DRAIN)
    assert read(queues="*").queues is None


def test_what_keda_reads_itself_is_passed_over() -> None:
    keys = ("scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey")
    assert read(**dict.fromkeys(keys, "x")) == read()


def test_a_value_that_keda_took_from_the_environment_counts_as_written() -> None:
    given = {"queuesFromEnv": "a", "targetPerReplicaFromEnv": "4", "modeFromEnv": "age"}
    assert read_trigger(given, Limits()) == read(mode="age")
    assert faults(LEAST | {"queuesFromEnv": "b"}) == ["queuesFromEnv"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("queues", value) for value in ("", "a,,b", "a,*", "*,*", "no spaces", "x" * 129)),
        *(
            ("targetPerReplica", value)
            for value in ("", "0", "0.0009", "-1", "nan", "inf", "four", "٤")
        ),
        *(("activation", value) for value in ("", "-0.1", "nan", "inf", "none")),
        *(("mode", value) for value in ("", "Depth", "length")),
        ("target", "4"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_key(key: str, value: str) -> None:
    assert set(faults(LEAST | {key: value})) == {key}


def test_all_faults_are_told_at_once() -> None:
    bad = {"mode": "x", "activation": "x", "queue": "a"}
    assert faults(bad) == ["queue", "queues", "targetPerReplica", "activation", "mode"]


def test_the_example_of_the_document_is_one() -> None:
    text = (Path(__file__).parents[3] / "docs" / "autoscaling.md").read_text(encoding="utf-8")
    examples = [
        yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    ]
    (scaled,) = [example for example in examples if example.get("kind") == "ScaledObject"]
    (trigger,) = scaled["spec"]["triggers"]
    assert read_trigger(trigger["metadata"], Limits()) == read(queues="default")


def test_the_name_of_the_metric_is_stable_and_tells_triggers_apart() -> None:
    same = [read(queues="b,a"), read(queues="a,b"), read(queues="a,b", targetPerReplica="9")]
    assert {metric_name(trigger) for trigger in same} == {"jq-depth-a-b-1eb7c54d"}
    others = [
        *(read(queues=queues) for queues in ("a", "b", "a-b", "A-B", "a.b", "*", "all", "___")),
        *(read(queues="a", mode=mode) for mode in ("age", "drain")),
        *(read(queues=f"{'x' * 100}{end}") for end in "12"),
    ]
    names = {metric_name(trigger) for trigger in others}
    assert len(names) == len(others)
    assert all(re.fullmatch(r"jq-[a-z0-9-]{1,60}", name) for name in names)
