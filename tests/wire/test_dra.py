# SPDX-License-Identifier: Apache-2.0
"""The kubelet's calls, by a foreign client. What a claim does is in its name: see dra_server.c."""
import concurrent.futures
import os
import stat
import threading
import time

import grpc
import pytest

import kubelet
from conftest import is_socket, Watch
from kubelet import V1, V1BETA1

PREPARE = f"/{V1}.DRAPlugin/NodePrepareResources"


def refused(code, function, *arguments, **options):
    with pytest.raises(grpc.RpcError) as caught:
        function(*arguments, **options)
    assert caught.value.code() == code, caught.value
    return caught.value.details()


# ---- registration ----


def test_info(server):
    with server.registrar() as registrar:
        info = registrar.info()
    assert info.type == "DRAPlugin"
    assert info.name == "sriov-dra.dev"
    assert info.endpoint == str(server.service)
    assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]


@pytest.mark.parametrize("accepted, error, line", [
    (True, "", "registered yes"),
    (False, "driver name in use", "registered no driver name in use"),
])
def test_registration_status(server, accepted, error, line):
    with server.registrar() as registrar:
        registrar.notify(accepted, error)
    status, _ = server.end()
    assert status == 0
    assert line in server.lines or line + " " in server.lines


def test_info_while_a_claim_waits(server):
    with server.client() as client, server.registrar() as registrar:
        waiting = client.dra("NodePrepareResources").future(
            kubelet.request("NodePrepareResources", "slow-1000"))
        server.wait_line("prepare 1")
        began = time.monotonic()
        registrar.info()
        assert time.monotonic() - began < 0.5
        assert waiting.result().claims["uid-slow-1000"].devices


# ---- Prepare and Unprepare ----


@pytest.mark.parametrize("version", [V1, V1BETA1])
@pytest.mark.parametrize("count", [0, 1, 32])
def test_prepare(client, version, count):
    answer = client.prepare(*[f"claim-{i}" for i in range(count)], version=version)
    assert set(answer.claims) == {f"uid-claim-{i}" for i in range(count)}
    for uid, result in answer.claims.items():
        name = uid.replace("uid-", "")
        device, = result.devices
        assert result.error == ""
        assert list(device.request_names) == ["nic"]
        assert (device.pool_name, device.device_name) == ("node-1", f"vf-of-{name}")
        assert list(device.cdi_device_ids) == [f"sriov-dra.dev/vf={uid}-vf-of-{name}"]
        if version == V1:
            assert not device.HasField("share_id")


@pytest.mark.parametrize("version", [V1, V1BETA1])
@pytest.mark.parametrize("count", [0, 1, 32])
def test_unprepare(client, version, count):
    answer = client.unprepare(*[f"claim-{i}" for i in range(count)], version=version)
    assert {uid: result.error for uid, result in answer.claims.items()} == \
        {f"uid-claim-{i}": "" for i in range(count)}


@pytest.mark.parametrize("operation", ["NodePrepareResources", "NodeUnprepareResources"])
def test_one_claim_fails(client, operation):
    answer = client.call(operation, "a", "fail-VLAN 100: Operation not permitted", "slow-50", "b")
    errors = {uid: result.error for uid, result in answer.claims.items()}
    assert errors == {"uid-a": "", "uid-b": "", "uid-slow-50": "",
                      "uid-fail-VLAN 100: Operation not permitted": "VLAN 100: Operation not permitted"}


def test_answers_in_any_order(client):
    answer = client.prepare("slow-150", "slow-1", "now", "slow-60")
    assert len(answer.claims) == 4
    assert all(result.devices for result in answer.claims.values())


def test_claim_twice_in_a_call(client):
    answer = client.prepare(("a", "u"), ("a", "u"), ("b", "w"))
    assert {uid: len(result.devices) for uid, result in answer.claims.items()} == {"u": 1, "w": 1}


def test_one_uid_for_two_claims(client):
    text = refused(grpc.StatusCode.INVALID_ARGUMENT, client.prepare, ("a", "u"), ("b", "u"))
    assert "default/a" in text and "default/b" in text


def test_claim_without_uid(client):
    assert "no uid" in refused(grpc.StatusCode.INVALID_ARGUMENT, client.prepare, ("a", ""))


def test_too_many_claims(client):
    assert len(client.prepare(*[f"c{i}" for i in range(1024)]).claims) == 1024
    refused(grpc.StatusCode.INVALID_ARGUMENT, client.prepare, *[f"c{i}" for i in range(1025)])


# ---- what isn't a proper call ----


@pytest.mark.parametrize("path", [
    f"/{V1}.DRAPlugin/NodeWatchResources",
    "/v1alpha1.DRAResourceHealth/NodeWatchResources",
    "/pluginregistration.Registration/GetInfo",  # of the other socket
    "/x/" + "y" * 2000,
])
def test_unknown_method(server, client, path):
    text = refused(grpc.StatusCode.UNIMPLEMENTED, client.raw(path), b"", timeout=10)
    assert path[:50] in text
    # Each of them needs one that waits for the next.
    for _ in range(3):
        refused(grpc.StatusCode.UNIMPLEMENTED, client.raw(path), b"", timeout=10)
    assert server.process.poll() is None


@pytest.mark.parametrize("payload", [
    b"\xff", b"\x0a", b"\x0a\x05\x0a\x01a", b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\x08\x01\xff", b"\x0a\x03\x12\x01\xff", b"\x0a\x05\x12\x03a\x00b", os.urandom(3000) + b"\xff",
    b"\x0a\x00" * 1_000_000,
], ids=["tag", "length", "short", "varint", "trailing", "utf8", "nul", "random", "empty-claims"])
def test_malformed_bytes(client, payload):
    refused(grpc.StatusCode.INVALID_ARGUMENT, client.raw(PREPARE), payload, timeout=10)
    assert client.prepare("a").claims


def test_unknown_fields_are_skipped(client):
    future = kubelet.request("NodePrepareResources", "a").SerializeToString()
    answer = client.raw(PREPARE)(b"\xa2\x06\x03a\x00b" + future + b"\xa8\x06\x00", timeout=10)
    assert b"uid-a" in answer


@pytest.mark.parametrize("size, code", [
    (4 * 1024 * 1024 + 1, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (20 * 1024 * 1024, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (4 * 1024 * 1024, grpc.StatusCode.INVALID_ARGUMENT),  # gRPC's limit, then ours
])
def test_oversized_message(client, size, code):
    refused(code, client.raw(PREPARE), b"\xff" * size, timeout=20)
    assert client.prepare("a").claims


def test_compressed_message_is_refused(server):
    with server.client(**{"grpc.default_compression_algorithm": 2}) as client:
        refused(grpc.StatusCode.UNIMPLEMENTED, client.raw(PREPARE), b"\0" * 100_000, timeout=10)


def test_call_without_message(client):
    call = client.channel.stream_unary(PREPARE)
    assert "no request message" in refused(grpc.StatusCode.INVALID_ARGUMENT, call, iter(()),
                                           timeout=10)


def test_call_with_two_messages(client):
    one = kubelet.request("NodePrepareResources", "a").SerializeToString()
    try:
        client.channel.stream_unary(PREPARE)(iter([one, one]), timeout=10)
    except grpc.RpcError:
        pass
    assert client.prepare("a").claims


# ---- many, and impatient ones ----


@pytest.mark.parametrize("calls", [50, 400])
def test_concurrent_calls(server, calls):
    """400 are more than one connection may have at once: the rest waits in the client."""
    with server.client() as client:
        prepare = client.dra("NodePrepareResources")
        futures = [prepare.future(kubelet.request("NodePrepareResources", "slow-200", f"c{i}"))
                   for i in range(calls)]
        for i, future in enumerate(futures):
            assert set(future.result().claims) == {"uid-slow-200", f"uid-c{i}"}


def test_concurrent_connections(server):
    def work(i):
        with server.client() as client:
            return [len(client.prepare(f"c{i}-{k}", "slow-5").claims) for k in range(10)]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(16))) == [[2] * 10] * 16


def test_client_cancels(server, client):
    call = client.dra("NodePrepareResources").future(
        kubelet.request("NodePrepareResources", "slow-300", "a"))
    server.wait_line("prepare 2")
    call.cancel()
    time.sleep(0.5)  # the late answer finds nobody
    assert client.prepare("b").claims
    server.end()
    assert "open 0" in server.lines


def test_clients_deadline(server, client):
    refused(grpc.StatusCode.DEADLINE_EXCEEDED, client.prepare, "slow-400", timeout=0.1)
    time.sleep(0.5)
    assert client.prepare("b").claims
    server.end()
    assert "open 0" in server.lines


def test_client_vanishes(server):
    for _ in range(20):
        with server.client() as client:
            call = client.dra("NodePrepareResources").future(
                kubelet.request("NodePrepareResources", "slow-200", "a"))
            server.wait_line("prepare 2")
        assert call.code() == grpc.StatusCode.CANCELLED
    time.sleep(0.4)
    server.end()
    assert "open 0" in server.lines


# ---- start and end ----


def test_sockets(server):
    for path in (server.service, server.registration):
        assert is_socket(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(server.service.parent.stat().st_mode) == 0o750
    assert server.end()[0] == 0
    assert not server.service.exists() and not server.registration.exists()


def test_registration_socket_comes_last_and_goes_first(start, root):
    """The kubelet comes when that file appears, and stops coming when it goes."""
    folders = [root / "plugins/sriov-dra.dev", root / "plugins_registry"]
    for folder in folders:
        folder.mkdir(parents=True)
    with Watch(*folders) as watch:
        assert start().end()[0] == 0
        assert [name for name in watch.names() if name.endswith(".sock")] == \
            ["dra.sock", "sriov-dra.dev-reg.sock", "sriov-dra.dev-reg.sock", "dra.sock"]


@pytest.mark.parametrize("cancelled", [False, True])
def test_end_with_an_open_call(server, cancelled):
    with server.client() as client:
        call = client.dra("NodePrepareResources").future(
            kubelet.request("NodePrepareResources", "never", "a"))
        server.wait_line("prepare 2")
        if cancelled:
            call.cancel()
            time.sleep(0.1)
        status, seconds = server.end()
        if not cancelled:
            assert call.code() == grpc.StatusCode.UNAVAILABLE
            assert call.details() == "the driver is ending"
    assert (status, server.lines[-1]) == (0, "ended")
    assert "open 1" in server.lines
    assert seconds < 2


def test_end_while_calls_pour_in(server):
    with server.client() as client:
        enough = threading.Event()

        def pour():
            answered = 0
            while not enough.is_set():
                try:
                    client.prepare("a")
                    answered += 1
                except grpc.RpcError as error:
                    assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
            return answered

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(pour) for _ in range(8)]
            time.sleep(0.5)
            status, seconds = server.end()
            enough.set()
            assert sum(answer.result() for answer in answers) > 8
    assert status == 0 and seconds < 3


def test_ends_from_within(start):
    server = start()
    with server.client() as client:
        refused(grpc.StatusCode.UNAVAILABLE, client.prepare, "stop", "a")
    assert server.end(None)[0] == 0


def test_idle_connection_does_not_hold_the_end(server):
    with server.client() as client, server.registrar() as registrar:
        client.prepare("a")
        registrar.info()
        status, seconds = server.end()
    assert status == 0 and seconds < 2


def test_restart_after_a_crash(start):
    first = start()
    first.kill()
    assert is_socket(first.service) and is_socket(first.registration)
    second = start()
    with second.client() as client, second.registrar() as registrar:
        assert client.prepare("a").claims
        assert registrar.info().name == "sriov-dra.dev"


def test_client_finds_the_new_server_again(start):
    first = start()
    with first.client(**{"grpc.initial_reconnect_backoff_ms": 100}) as client:
        client.prepare("a")
        first.end()
        start()
        for last in [False] * 9 + [True]:
            try:
                assert set(client.prepare("b").claims) == {"uid-b"}
                break
            except grpc.RpcError:
                assert not last
                time.sleep(0.2)


def test_two_pods_side_by_side(start):
    """A rolling update: the end of one leaves the other's sockets."""
    old, new = start(pod_uid="11111111-aaaa"), start(pod_uid="22222222-bbbb")
    with old.registrar() as a, new.registrar() as b:
        assert a.info().endpoint == str(old.service)
        assert b.info().endpoint == str(new.service) != str(old.service)
    assert old.end()[0] == 0
    assert not old.service.exists() and not old.registration.exists()
    with new.client() as client, new.registrar() as registrar:
        assert client.prepare("a").claims and registrar.info()


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_something_else_in_the_place(start, root, kind):
    place = root / "plugins/sriov-dra.dev/dra.sock"
    place.parent.mkdir(parents=True)
    if kind == "file":
        place.write_text("mine")
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to("nowhere")
    server = start(ready=False)
    assert server.end(None)[0] == 3
    said = server.log.read_text()
    assert str(place) in said
    assert {"file": "a plain file is in its place", "directory": "a directory is in its place",
            "link": "a file of another kind is in its place"}[kind] in said
    assert kind != "file" or place.read_text() == "mine"
    assert not server.registration.exists()


def test_registration_socket_refused(start, root):
    """The first socket goes again when the second can't be made."""
    (root / "plugins_registry/sriov-dra.dev-reg.sock").mkdir(parents=True)
    server = start(ready=False)
    assert server.end(None)[0] == 3
    assert not server.service.exists()


def test_path_too_long(start):
    server = start(pod_uid="x" * 80, ready=False)
    assert server.end(None)[0] == 3
    assert "a socket's may have 107" in server.log.read_text()


def test_directory_cannot_be_made(start, root):
    (root / "plugins").write_text("no directory")
    server = start(ready=False)
    assert server.end(None)[0] == 3
    assert str(root / "plugins") in server.log.read_text()
