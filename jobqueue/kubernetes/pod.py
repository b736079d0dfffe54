"""The pod that this worker runs in: its names, its API server, its credentials."""

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jobqueue.config.address import is_host, is_port
from jobqueue.errors import Fault, SettingsError, Unavailable

_NAMES = {
    "POD_NAME": re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9.-]*[a-z0-9])?"),
    "POD_NAMESPACE": re.compile(r"(?=.{1,63}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?"),
}
_FIELDS = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_DIR = "worker.kubernetes_credentials_dir"
_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Pod:
    """How to reach what Kubernetes knows about this pod. ``credentials`` is a folder."""

    name: str
    namespace: str
    host: str
    port: int
    credentials: Path

    def token(self) -> str:
        """Return the token of now: it is exchanged every hour. Raises Unavailable."""
        path = self.credentials / "token"
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise Unavailable(f"{path} cannot be read: {_why(error)}") from error
        if not _TOKEN.fullmatch(text):
            raise Unavailable(f"{path} holds no token")
        return text

    def tls(self) -> ssl.SSLContext:
        """Return what trusts the cluster's CA of now, and nothing else. Raises Unavailable."""
        path = self.credentials / "ca.crt"
        # Not the usual context: from Python 3.13 on it refuses CAs without key identifiers, as
        # EKS has them. Signatures, dates and the host are checked in this one too.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cafile=path)
        except OSError as error:
            raise Unavailable(f"{path} cannot be read: {_why(error)}") from error
        return context


def find_pod(env: Mapping[str, str], credentials: Path) -> Pod:
    """Return the pod that the environment tells of. Raises SettingsError with all that is missing.

    ``credentials`` is the folder in which Kubernetes mounts the token of a service account and the
    cluster's CA.
    """
    pod = Pod(
        env.get("POD_NAME", ""),
        env.get("POD_NAMESPACE", ""),
        env.get(_HOST, "").strip("[]"),
        int(env[_PORT]) if is_port(env.get(_PORT, "")) else 0,
        credentials,
    )
    faults = [*_name_faults(env), *_server_faults(pod), *_credential_faults(pod)]
    if faults:
        raise SettingsError(faults)
    return pod


def _name_faults(env: Mapping[str, str]) -> Iterator[Fault]:
    for variable, form in _NAMES.items():
        if not env.get(variable):
            hint = f"set it from {_FIELDS[variable]} by the downward API"
            yield Fault(variable, f"is needed by worker.pod_deletion_cost: {hint}")
        elif not form.fullmatch(env[variable]):
            yield Fault(variable, f"{env[variable][:80]!r} cannot be a name in Kubernetes")


def _server_faults(pod: Pod) -> Iterator[Fault]:
    needed = "is needed by worker.pod_deletion_cost, and set in every pod of Kubernetes"
    if not is_host(pod.host):
        yield Fault(_HOST, needed)
    if not pod.port:
        yield Fault(_PORT, needed)


def _credential_faults(pod: Pod) -> Iterator[Fault]:
    for look in (pod.token, pod.tls):
        try:
            look()
        except Unavailable as error:
            yield Fault(_DIR, f"{error.message}; the pod needs the token of a service account")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return "it holds no certificate"
    return (isinstance(error, OSError) and error.strerror) or "it is no ASCII text"
