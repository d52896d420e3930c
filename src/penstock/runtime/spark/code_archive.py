"""Our own code on the machines of a cluster: operators with memory and ONNX models run there in Python."""

import zipfile
from pathlib import Path

import penstock


def pack_code(folder: Path) -> Path:
    """The package as one file that Python can import. What it imports itself must be installed where it goes."""
    package = Path(penstock.__file__).parent
    archive = folder / "penstock.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted(package.rglob("*.py")):
            file.write(module, module.relative_to(package.parent))
    return archive
