"""The contract with KEDA, number by number: its client is compiled against these (R-10.2)."""

from google.protobuf.descriptor import Descriptor

from jobqueue.externalscaler import externalscaler_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["ExternalScaler"]


def fields(message: Descriptor) -> dict[int, str]:
    return {field.number: field.name for field in message.fields}


def test_methods_are_found_where_keda_calls_them() -> None:
    assert SERVICE.full_name == "externalscaler.ExternalScaler"
    assert {
        method.name: (method.input_type.name, method.output_type.name, method.server_streaming)
        for method in SERVICE.methods
    } == {
        "IsActive": ("ScaledObjectRef", "IsActiveResponse", False),
        "StreamIsActive": ("ScaledObjectRef", "IsActiveResponse", True),
        "GetMetricSpec": ("ScaledObjectRef", "GetMetricSpecResponse", False),
        "GetMetrics": ("GetMetricsRequest", "GetMetricsResponse", False),
    }


def test_messages_have_kedas_names_and_numbers() -> None:
    told = {name: fields(message) for name, message in pb.DESCRIPTOR.message_types_by_name.items()}
    assert told == {
        "ScaledObjectRef": {1: "name", 2: "namespace", 3: "scalerMetadata"},
        "IsActiveResponse": {1: "result"},
        "GetMetricSpecResponse": {1: "metricSpecs"},
        "MetricSpec": {1: "metricName", 2: "targetSize", 3: "targetSizeFloat"},
        "GetMetricsRequest": {1: "scaledObjectRef", 2: "metricName"},
        "GetMetricsResponse": {1: "metricValues"},
        "MetricValue": {1: "metricName", 2: "metricValue", 3: "metricValueFloat"},
    }


def test_values_have_kedas_types() -> None:
    value = pb.MetricValue(metricName="m", metricValue=1, metricValueFloat=0.5)
    assert value.SerializeToString() == b"\x0a\x01m\x10\x01\x19" + b"\0\0\0\0\0\0\xe0\x3f"
    ref = pb.ScaledObjectRef(scalerMetadata={"k": "v"})
    assert ref.SerializeToString() == b"\x1a\x06\x0a\x01k\x12\x01v"
    assert pb.IsActiveResponse(result=True).SerializeToString() == b"\x08\x01"
