"""How large is the default install? Builds the wheel, installs it into an empty environment, adds up what is there.

    python scripts/install_size.py            default install: 361 MB, 54 packages
    python scripts/install_size.py --each     and each package with its size, the largest first

Needs an index to install from; a megabyte is 1,048,576 bytes, compiled bytecode included, pip itself not.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
MEGABYTE = 1 << 20


def installed_sizes(folder: Path) -> dict[str, float]:
    """Megabytes by package, of a fresh environment made in this folder."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "empty", with_pip=False)
    subprocess.run([*pip, "--python", folder / "empty/bin/python", "install", wheel], check=True)
    (packages,) = (folder / "empty/lib").glob("python*/site-packages")
    sizes: dict[str, float] = {}
    for package in distributions(path=[str(packages)]):
        files = [Path(str(package.locate_file(file))) for file in package.files or ()]
        sizes[package.metadata["Name"]] = sum(file.stat().st_size for file in files if file.is_file()) / MEGABYTE
    return sizes


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = installed_sizes(Path(place))
    if "--each" in sys.argv:
        for name, size in sorted(found.items(), key=lambda item: -item[1]):
            print(f"{size:7.1f} {name}")
    print(f"default install: {sum(found.values()):.0f} MB, {len(found)} packages")
