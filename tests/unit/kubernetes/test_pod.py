"""What a pod knows of itself, and what is said when it does not."""

import ssl
from pathlib import Path

import pytest

from jobqueue.errors import SettingsError, Unavailable
from jobqueue.kubernetes.pod import find_pod
from tests.support.kubernetes_api import NAMESPACE, POD, Cluster

_DIR = "worker.kubernetes_credentials_dir"


def faults(env: dict[str, str], folder: Path) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        find_pod(env, folder)
    return {fault.key: fault.message for fault in caught.value.faults}


def test_a_pod_is_found_by_its_environment(kube: Cluster) -> None:
    pod = kube.pod()
    assert (pod.name, pod.namespace) == (POD, NAMESPACE)
    assert (pod.host, pod.port, pod.token()) == ("127.0.0.1", kube.port, "first-token")


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        find_pod({}, tmp_path)
    assert [fault.key for fault in caught.value.faults] == [
        "POD_NAME", "POD_NAMESPACE", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT",
        _DIR, _DIR,
    ]  # fmt: skip
    text = str(caught.value)
    for words in ("downward API", "metadata.namespace", "token cannot be read", "ca.crt cannot"):
        assert words in text


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("POD_NAME", "../../secrets/x"),
        ("POD_NAME", "a" * 254),
        ("POD_NAME", "A"),
        ("POD_NAMESPACE", "a.b"),
        ("POD_NAMESPACE", "a\r\nHost: x"),
        ("KUBERNETES_SERVICE_HOST", "a/b"),
        ("KUBERNETES_SERVICE_PORT", "0"),
        ("KUBERNETES_SERVICE_PORT", "tcp://10.0.0.1:443"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(kube: Cluster, variable: str, value: str) -> None:
    assert list(faults(kube.env() | {variable: value}, kube.folder)) == [variable]


def test_an_ipv6_address_of_the_api_server_may_come_in_brackets(kube: Cluster) -> None:
    for host in ("[fd00::1]", "fd00::1"):
        pod = find_pod(kube.env() | {"KUBERNETES_SERVICE_HOST": host}, kube.folder)
        assert pod.host == "fd00::1"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("token", b"", "holds no token"),
        ("token", b"a b", "holds no token"),
        ("token", b"a\r\nX: y", "holds no token"),
        ("token", b"\xff\xfe", "no ASCII"),
        ("ca.crt", b"", "holds no certificate"),
        ("ca.crt", b"nonsense", "holds no certificate"),
    ],
)
def test_credentials_that_are_none_are_told(
    kube: Cluster, name: str, content: bytes, words: str
) -> None:
    (kube.folder / name).write_bytes(content)
    assert words in faults(kube.env(), kube.folder)[_DIR]


def test_the_server_is_verified_though_a_ca_may_lack_key_identifiers(kube: Cluster) -> None:
    context = kube.pod().tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


def test_what_is_said_of_a_token_never_shows_it(kube: Cluster) -> None:
    pod = kube.pod()
    (kube.folder / "token").write_text("se cret", encoding="ascii")
    with pytest.raises(Unavailable) as caught:
        pod.token()
    assert "cret" not in str(caught.value)
