"""Packs the wheel: python3 build.py BINARY VERSION FOLDER. It needs nothing but Python, and prints the file.

A wheel is an archive with a list of its files, so no build tool is needed. Equal inputs give an equal wheel.
"""

import base64
import hashlib
import platform
import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
# The first moment that an archive can express.
TIME = (1980, 1, 1, 0, 0, 0)


def tag(binary: bytes) -> str:
    """The platform by the newest version of the C library that the program asks for."""
    versions = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)\x00", binary)]
    if not versions:
        raise SystemExit("the program asks for no version of the GNU C library: unknown platform")
    return f"py3-none-manylinux_2_{max(versions)}_{platform.machine()}"


def main(binary: str, version: str, folder: str) -> None:
    program = Path(binary).read_bytes()
    name, info = f"setpoint-{version}", f"setpoint-{version}.dist-info"
    readme = (HERE / "README.md").read_text()
    files: dict[str, bytes] = {f"{name}.data/scripts/setpoint": program}
    for source in sorted((HERE / "src").rglob("*")):
        if source.suffix in (".py", ".typed"):
            text = source.read_text().replace("@VERSION@", version)
            files[source.relative_to(HERE / "src").as_posix()] = text.encode()
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: setpoint\nVersion: {version}\n"
        "Summary: A Kubernetes cluster for tests, in one process\nLicense: Apache-2.0\n"
        "Requires-Python: >=3.9\nClassifier: Framework :: Pytest\n"
        f"Description-Content-Type: text/markdown\n\n{readme}"
    ).encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: setpoint\nRoot-Is-Purelib: false\nTag: {tag(program)}\n"
    files[f"{info}/WHEEL"] = wheel.encode()
    files[f"{info}/entry_points.txt"] = b"[pytest11]\nsetpoint = setpoint.pytest_plugin\n"
    record = f"{info}/RECORD"
    rows = [f"{path},sha256={digest(content)},{len(content)}" for path, content in files.items()]
    files[record] = ("\n".join([*rows, f"{record},,"]) + "\n").encode()
    target = Path(folder) / f"{name}-{tag(program)}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, TIME)
            # The bit of a regular file too: without it pip does not make the program executable.
            entry.external_attr = (0o100755 if path.endswith("/scripts/setpoint") else 0o100644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    print(target)


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


main(*sys.argv[1:])
