import socket

import pytest

from jobqueue.errors import Unavailable
from jobqueue.runtime.ports import check_port


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
def test_a_port_that_somebody_listens_on_is_refused_by_its_setting(host: str) -> None:
    with socket.create_server((host, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=rf"port {port} \(grpc\.port\)") as caught:
            check_port("grpc.port", port)
    assert caught.value.reason == "PORT_TAKEN"
    check_port("grpc.port", port)


def test_any_free_port_is_always_free() -> None:
    check_port("grpc.port", 0)
