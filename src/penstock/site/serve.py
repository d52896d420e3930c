"""Shows a written site to a browser on this machine, and to nobody else."""

from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _SiteHandler(SimpleHTTPRequestHandler):
    """Files with their types, never from a cache: a site that was written again is seen at the next reload."""

    # Stated here, because the types that the operating system knows differ from one to the next.
    extensions_map = {
        "": "application/octet-stream",
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".json": "application/json",
        ".svg": "image/svg+xml",
    }

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def list_directory(self, path: object) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: object) -> None:
        """Requests for pages are no news."""


def serve(directory: Path, port: int) -> ThreadingHTTPServer:
    """A server bound to 127.0.0.1; port 0 takes a free one, see `server_port`. The caller runs and closes it."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(_SiteHandler, directory=str(directory)))
