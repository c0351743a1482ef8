"""Generates the Python stubs of both contracts into the folder that is named."""

import pathlib
import sys

from grpc_tools import protoc

root = pathlib.Path(__file__).resolve().parents[2]
target = pathlib.Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
for contract in ("mcm/driver/proto/driver.proto", "fakecloud/proto/fakecloud.proto"):
    path = root / contract
    arguments = ["", f"-I{path.parent}", f"--python_out={target}", f"--grpc_python_out={target}", path.name]
    if protoc.main(arguments) != 0:
        sys.exit(f"the stubs of {contract} cannot be generated")
