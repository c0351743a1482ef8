import json, sys
import driver_pb2, driver_pb2_grpc, fakecloud_pb2 as pb, fakecloud_pb2_grpc, grpc

channel = grpc.insecure_channel(sys.argv[1])
driver, cloud = driver_pb2_grpc.DriverStub(channel), fakecloud_pb2_grpc.CloudStub(channel)
machine = {"metadata": {"name": "worker-1", "namespace": "default", "uid": "1"}, "spec": {"class": {"kind": "MachineClass", "name": "small"}}}
spec = {"metadata": {"name": "small", "namespace": "default"}, "providerSpec": {"machineType": "small", "image": "linux-1", "zone": "local-1"}}
request = driver_pb2.MachineRequest(machine=json.dumps(machine).encode(), **{"class": json.dumps(spec).encode()}, secret={"apiToken": b"any"})
print("made", driver.CreateMachine(request, timeout=10).provider_id)
cloud.AddFault(pb.Fault(id="no-delete", operation=pb.OPERATION_DELETE, times=1, error=pb.TROUBLE_OUTAGE), timeout=10)
try:
    driver.DeleteMachine(request, timeout=10)
except grpc.RpcError as error:
    print("refused", error.code().name, error.details())
for record in cloud.Audit(pb.AuditRequest(), timeout=10).records:
    print(record.sequence, record.operation, record.machine, record.fault_id)
