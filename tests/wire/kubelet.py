# SPDX-License-Identifier: Apache-2.0
"""A kubelet's side of the sockets: gRPC from Debian's python3-grpcio, messages by Google's
protobuf. The classes are made from upstream's .proto files, our edit for protoc-c undone."""
import os
import pathlib
import re
import subprocess
import tempfile

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TOP = pathlib.Path(__file__).resolve().parents[2]
V1, V1BETA1 = "k8s.io.kubelet.pkg.apis.dra.v1", "k8s.io.kubelet.pkg.apis.dra.v1beta1"


def load_messages():
    """Name to class, of all vendored protocols of the kubelet."""
    with tempfile.TemporaryDirectory() as folder:
        names = ["pluginregistration_v1.proto", "dra_v1.proto", "dra_v1beta1.proto"]
        for name in names:
            text = (TOP / "proto" / name).read_text()
            text = re.sub(r"oneof \w+_presence \{ (string \w+ = \d+;) \}", r"optional \1", text)
            pathlib.Path(folder, name).write_text(text)
        out = pathlib.Path(folder, "set")
        subprocess.run(["protoc-c", f"-I{folder}", f"--descriptor_set_out={out}", *names],
                       cwd=folder, check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    classes = {}
    for file in files:
        pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    for file in files:
        for name in pool.FindFileByName(file.name).message_types_by_name.values():
            classes[name.full_name] = factory.GetPrototype(name)
    return classes


MESSAGES = load_messages()


class Client:
    """One connection to one socket."""

    def __init__(self, path, **options):
        options = {"grpc.max_send_message_length": -1, "grpc.enable_retries": 0,
                   "grpc.use_local_subchannel_pool": 1, **options}
        self.channel = grpc.insecure_channel(f"unix:{path}", options=list(options.items()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def raw(self, method):
        """A callable from bytes to bytes."""
        return self.channel.unary_unary(method)

    def method(self, service, name, request, response):
        return self.channel.unary_unary(f"/{service}/{name}",
                                        request_serializer=MESSAGES[request].SerializeToString,
                                        response_deserializer=MESSAGES[response].FromString)

    def dra(self, operation, version=V1):
        return self.method(f"{version}.DRAPlugin", operation, f"{version}.{operation}Request",
                           f"{version}.{operation}Response")

    def call(self, operation, *claims, version=V1, timeout=10):
        return self.dra(operation, version)(request(operation, *claims, version=version),
                                            timeout=timeout)

    def prepare(self, *claims, **options):
        return self.call("NodePrepareResources", *claims, **options)

    def unprepare(self, *claims, **options):
        return self.call("NodeUnprepareResources", *claims, **options)

    def info(self):
        return self.method("pluginregistration.Registration", "GetInfo",
                           "pluginregistration.InfoRequest", "pluginregistration.PluginInfo")(
                               MESSAGES["pluginregistration.InfoRequest"](), timeout=10)

    def notify(self, accepted, error=""):
        status = MESSAGES["pluginregistration.RegistrationStatus"](plugin_registered=accepted,
                                                                   error=error)
        return self.method("pluginregistration.Registration", "NotifyRegistrationStatus",
                           "pluginregistration.RegistrationStatus",
                           "pluginregistration.RegistrationStatusResponse")(status, timeout=10,
                                                                                         wait_for_ready=True)


def request(operation, *claims, version=V1):
    """Claims are names, or (name, uid); namespace "default"."""
    message = MESSAGES[f"{version}.{operation}Request"]()
    for claim in claims:
        name, uid = claim if isinstance(claim, tuple) else (claim, f"uid-{claim}")
        message.claims.add(namespace="default", name=name, uid=uid)
    return message


def build_directory():
    """Where the programs of the build under test are."""
    if "SRIOV_DRA" in os.environ:
        return pathlib.Path(os.environ["SRIOV_DRA"]).parent
    return pathlib.Path(os.environ.get("SRIOV_DRA_BUILD", TOP / "build"))
