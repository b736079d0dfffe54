"""One PATCH, and all that may be answered to it."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from jobqueue.errors import Unavailable
from jobqueue.kubernetes.api import Answer, PodApi
from jobqueue.kubernetes.deletion_cost import refusal
from tests.support.certificates import Authority
from tests.support.kubernetes_api import (
    ANNOTATION,
    PATH,
    Behaviour,
    Cluster,
    answers,
    breaks,
    cluster,
    floods,
    hangs,
    refuses,
    sends,
    trickles,
)
from tests.support.redis import free_port
from tests.support.waiting import HANG_S


def api(kube: Cluster, *, timeout_s: float = 60.0, **changes: object) -> PodApi:
    return PodApi(replace(kube.pod(), **changes), timeout_s=timeout_s)  # type: ignore[arg-type]


async def test_the_request_is_a_merge_patch_of_one_annotation(kube: Cluster) -> None:
    assert await api(kube).set_deletion_cost(3004) == Answer(200)
    (request,) = kube.requests
    assert request.line == f"PATCH {PATH} HTTP/1.1"
    assert json.loads(request.body) == {"metadata": {"annotations": {ANNOTATION: "3004"}}}
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert request.headers["authorization"] == "Bearer first-token"
    assert request.headers["host"] == f"127.0.0.1:{kube.port}"
    assert kube.costs == ["3004"]


async def test_the_token_is_read_anew_for_each_request(kube: Cluster) -> None:
    asking = api(kube)
    await asking.set_deletion_cost(1)
    kube.rotate("second-token")
    assert (await asking.set_deletion_cost(2)).status == 200
    assert kube.requests[-1].headers["authorization"] == "Bearer second-token"


@pytest.mark.parametrize("behaviour", [answers(200, "x" * 300_000), floods])
async def test_a_large_answer_is_cut_and_still_one(kube: Cluster, behaviour: Behaviour) -> None:
    kube.behaviour = behaviour
    assert (await api(kube).set_deletion_cost(1)).status == 200


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 409, 415, 422, 429, 500, 503, 504])
async def test_a_refusal_is_told_with_its_reason(kube: Cluster, status: int) -> None:
    kube.behaviour = refuses(status, 'pods "x" is forbidden', Retry_After="7")
    answer = await api(kube).set_deletion_cost(1)
    assert answer == Answer(status, 7.0, 'pods "x" is forbidden')
    assert refusal(answer).startswith(f"HTTP {status}")
    assert refusal(answer).endswith('pods "x" is forbidden')


def test_a_refusal_for_lack_of_rights_says_which() -> None:
    assert "verb patch on pods" in refusal(Answer(403))
    assert refusal(Answer(200)) == ""


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'HTTP/1.1 403 x\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"message": "no"}\r\n0', "no"),
        (b"HTTP/1.1 403 x\r\n\r\n<html>", ""),
        (b'HTTP/1.1 403 x\r\n\r\n{"message": 1}', ""),
        (b"HTTP/1.1 403 x\r\n\r\n" + b'{"a":' * 9_000, ""),
        (b"HTTP/1.0 403\r\nRetry-After: soon\r\n\r\n", ""),
        (b"HTTP/1.1 403 x\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n\r\n", ""),
    ],
)
async def test_a_refusal_may_have_any_body(kube: Cluster, raw: bytes, said: str) -> None:
    kube.behaviour = sends(raw)
    assert await api(kube).set_deletion_cost(1) == Answer(403, 0.0, said)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (sends(b"SSH-2.0-OpenSSH\r\n"), "not HTTP"),
        (sends(b"\x00\xff" * 100_000), "not HTTP"),
        (sends(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000 + b"\r\n"), "headers"),
        (sends(b""), "closed"),
        (breaks, r"\S"),
        (hangs, "no answer within"),
        (trickles, "no answer within"),
    ],
)
async def test_what_is_no_answer_is_none_in_time(
    kube: Cluster, behaviour: Behaviour, words: str
) -> None:
    kube.behaviour = behaviour
    timeout_s = 0.5 if behaviour in {hangs, trickles} else 600.0
    async with asyncio.timeout(HANG_S):
        with pytest.raises(Unavailable, match=words):
            await api(kube, timeout_s=timeout_s).set_deletion_cost(1)


async def test_a_refused_connection_is_no_answer(kube: Cluster) -> None:
    with pytest.raises(Unavailable):
        await api(kube, port=free_port()).set_deletion_cost(1)


async def test_a_server_of_another_ca_is_sent_no_token(kube: Cluster, tmp_path: Path) -> None:
    (kube.folder / "ca.crt").write_bytes(Authority(tmp_path, "other").path.read_bytes())
    with pytest.raises(Unavailable, match="certificate verify failed"):
        await api(kube).set_deletion_cost(1)
    assert kube.requests == []


async def test_a_server_of_another_name_is_sent_no_token(tmp_path: Path) -> None:
    async with cluster(tmp_path / "elsewhere", "elsewhere.example") as kube:
        with pytest.raises(Unavailable, match="certificate verify failed"):
            await api(kube).set_deletion_cost(1)
        assert kube.requests == []


async def test_a_token_that_is_gone_is_no_answer_and_no_request(kube: Cluster) -> None:
    asking = api(kube)
    (kube.folder / "token").unlink()
    with pytest.raises(Unavailable, match="token cannot be read"):
        await asking.set_deletion_cost(1)
    assert kube.requests == []


async def test_a_request_that_hangs_can_be_cancelled_at_once(kube: Cluster) -> None:
    kube.behaviour = hangs
    asking = asyncio.create_task(PodApi(kube.pod(), timeout_s=600).set_deletion_cost(1))
    await kube.is_asked(1)
    asking.cancel()
    async with asyncio.timeout(HANG_S):
        await asyncio.gather(asking, return_exceptions=True)
