"""Packs our own code for the machines of a cluster: stateful operators and ONNX models run there in Python."""

import zipfile
from pathlib import Path

import penstock


def pack_code(folder: Path) -> Path:
    """Pack the package into a file that Python can import. Its dependencies must be installed on the machines."""
    package = Path(penstock.__file__).parent
    archive = folder / "penstock.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted(package.rglob("*.py")):
            file.write(module, module.relative_to(package.parent))
    return archive
