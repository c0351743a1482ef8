"""A driver to start from: its VMs are entries of a dictionary in memory.

Replace the dictionary by calls of your cloud's API; what the comments say about each call stays true. `drydock driver
test` checks it. Stubs are generated from mcm/driver/proto/driver.proto (see README.md).
"""

import json
import sys
import threading
from concurrent import futures

import grpc

import driver_pb2 as pb
import driver_pb2_grpc

PROVIDER = "skeleton"
CSI_DRIVER = "csi.skeleton.example"
SIZES = ("small", "large")
OWNERSHIP_TAGS = ("kubernetes.io/cluster/", "kubernetes.io/role/")


class Failure(Exception):
    """A failed call. The message appears in the machine's status: it says what to do, and contains no secret."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


def invalid(message):
    """InvalidArgument, so that the controller does not repeat the call every few seconds."""
    return Failure(grpc.StatusCode.INVALID_ARGUMENT, message)


def answers(call):
    """Sends a Failure, or the failure of a bug without its text, as the status of the call."""

    def answer(self, request, context):
        try:
            return call(self, request)
        except Failure as failure:
            context.abort(failure.code, failure.message)
        except Exception as error:  # The text may contain anything, also secrets.
            context.abort(grpc.StatusCode.INTERNAL, f"a bug in the driver: {type(error).__name__}")

    return answer


def check_credentials(secret):
    """Errors name the key, never the value."""
    if not secret.get("token"):
        raise invalid("the key token of the class's Secret is missing or empty: enter the cloud's API token")


def provider_spec(machine_class):
    if machine_class.get("provider") != PROVIDER:
        raise invalid(f"the class has another provider than {PROVIDER}: correct it, or run that provider's driver")
    spec = machine_class.get("providerSpec")
    if not isinstance(spec, dict):
        raise invalid("providerSpec must be an object with zone, size and tags")
    if not isinstance(spec.get("zone"), str):
        raise invalid("providerSpec.zone is missing: enter the name of a zone")
    if spec.get("size") not in SIZES:
        raise invalid(f"providerSpec.size is not one of {', '.join(SIZES)}")
    tags = spec.get("tags", {})
    if not isinstance(tags, dict):
        raise invalid("providerSpec.tags must map names to texts")
    return spec["zone"], tags


def read(request):
    """The machine as NAMESPACE/NAME, its object, and the class's zone and tags."""
    machine = json.loads(request.machine)
    metadata = machine.get("metadata", {})
    if not metadata.get("name"):
        raise invalid("the machine has no name")
    zone, tags = provider_spec(json.loads(getattr(request, "class")))
    check_credentials(request.secret)
    return f"{metadata.get('namespace', '')}/{metadata['name']}", machine, zone, tags


class Driver(driver_pb2_grpc.DriverServicer):
    """Calls without a method answer Unimplemented: InitializeMachine, UpdateMachine and GenerateMachineClass."""

    def __init__(self):
        self.lock = threading.Lock()
        self.vms = {}

    @staticmethod
    def identity(vm):
        # The node name is the one under which the VM's kubelet registers.
        return pb.Vm(provider_id=vm["id"], node_name=vm["machine"])

    @answers
    def CreateMachine(self, request):
        # Repeated after every crash and lost response: an existing VM of the machine is the answer. In a real cloud,
        # look for the VM by a tag or a name that derives from the machine, and let the cloud reject a second one.
        key, machine, zone, tags = read(request)
        vm = {"id": f"{PROVIDER}:///{zone}/{key}", "machine": machine["metadata"]["name"], "tags": tags}
        with self.lock:
            return self.identity(self.vms.setdefault(key, vm))

    @answers
    def DeleteMachine(self, request):
        # Without a uid the request means the one VM of its provider id: an orphan. No VM is a success.
        key, machine, _, _ = read(request)
        provider_id = machine.get("spec", {}).get("providerID")
        with self.lock:
            if provider_id and not machine["metadata"].get("uid"):
                self.vms = {key: vm for key, vm in self.vms.items() if vm["id"] != provider_id}
            else:
                self.vms.pop(key, None)
        return pb.Deleted()

    @answers
    def GetMachineStatus(self, request):
        key, _, _, _ = read(request)
        with self.lock:
            vm = self.vms.get(key)
        if vm is None:
            raise Failure(grpc.StatusCode.NOT_FOUND, f"machine {key} has no VM")
        return self.identity(vm)

    @answers
    def ListMachines(self, request):
        # Only VMs with all ownership tags of the class: the controller deletes a listed VM that has no machine.
        _, tags = provider_spec(json.loads(getattr(request, "class")))
        check_credentials(request.secret)
        tags = {key: value for key, value in tags.items() if key.startswith(OWNERSHIP_TAGS)}
        if not tags:
            raise invalid("providerSpec.tags has no ownership tag kubernetes.io/cluster/...: add one")
        with self.lock:
            own = [vm for vm in self.vms.values() if tags.items() <= vm["tags"].items()]
        return pb.VmList(machines={vm["id"]: vm["machine"] for vm in own})

    @answers
    def GetVolumeIds(self, request):
        specs = [json.loads(spec) for spec in request.persistent_volume_specs]
        volumes = [spec["csi"] for spec in specs if "csi" in spec]
        return pb.VolumeIds(ids=[csi["volumeHandle"] for csi in volumes if csi["driver"] == CSI_DRIVER])


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7300"
    if not address.startswith(("127.0.0.1:", "localhost:")):
        sys.exit(f"{address} is not on loopback: serve there with TLS that requires client certificates")
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    driver_pb2_grpc.add_DriverServicer_to_server(Driver(), server)
    port = server.add_insecure_port(address)
    server.start()
    print(f"driver.py serves on 127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
