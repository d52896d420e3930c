"""Serves a written site to browsers on this machine only."""

import os
import re
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

_HOST: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?", re.IGNORECASE)
_NO_FILE: Final = "no such page"


class _SiteHandler(SimpleHTTPRequestHandler):
    """Serves files with their types and without caching, so that a reload shows a new site."""

    # Stated here, because the types that the operating system knows differ from one to the next.
    extensions_map = {
        "": "application/octet-stream",
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".json": "application/json",
        ".svg": "image/svg+xml",
    }

    def parse_request(self) -> bool:
        """Accept only requests for this machine's names, so that a foreign page cannot read the site by DNS
        rebinding."""
        if not super().parse_request():
            return False
        host = self.headers.get("Host", "")
        if host and _HOST.fullmatch(host.strip()) is None:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This site is served as 127.0.0.1 and localhost only")
            return False
        return True

    def translate_path(self, path: str) -> str:
        """The file of a path; a file that does not exist if the path is invalid."""
        found = super().translate_path(path)
        return os.path.join(self.directory, _NO_FILE) if "\0" in found else found

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def list_directory(self, path: object) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


def serve(directory: Path, port: int) -> ThreadingHTTPServer:
    """A server bound to 127.0.0.1. Port 0 chooses a free one, see `server_port`. The caller runs and closes it."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(_SiteHandler, directory=str(directory)))
