import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from penstock.site.serve import serve
from penstock.site.write import write_site
from tests.site.projects import SHOP


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, int]]:
    (tmp_path / "secret.txt").write_text("not part of the site", encoding="utf-8")
    write_site(SHOP, tmp_path / "site")
    with serve(tmp_path / "site", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield str(server.server_address[0]), server.server_port
        server.shutdown()
        thread.join()


def get(address: tuple[str, int], path: str, host: str | None = None) -> HTTPResponse:
    connection = HTTPConnection(*address, timeout=10)
    try:
        connection.request("GET", path, headers={} if host is None else {"Host": host})
        response = connection.getresponse()
        response.read()
        return response
    finally:
        connection.close()


def test_only_this_machine_is_served(address: tuple[str, int]) -> None:
    assert address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/model/orders_clean.html", "text/html; charset=utf-8"),
        ("/assets/site.css", "text/css; charset=utf-8"),
        ("/assets/data.js", "text/javascript; charset=utf-8"),
        ("/assets/icon.svg", "image/svg+xml"),
    ],
)
def test_files_have_their_types_and_are_not_kept(address: tuple[str, int], path: str, kind: str) -> None:
    response = get(address, path)
    assert response.status == 200
    assert response.headers["Content-Type"] == kind
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/assets/", "/nothing.html", "/../secret.txt", "/%2e%2e/secret.txt", "/%00", "/a%00/", "/%ff"]
)
def test_there_is_nothing_but_the_pages(address: tuple[str, int], path: str) -> None:
    assert get(address, path).status == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("[::1]:8080", 200),
        ("evil.example:8080", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost:80@evil.example", 421),
    ],
)
def test_a_name_of_somebody_else_is_not_served(address: tuple[str, int], host: str, status: int) -> None:
    assert get(address, "/", host).status == status
