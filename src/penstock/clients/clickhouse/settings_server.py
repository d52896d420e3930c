"""The ClickHouse servers that the application's settings name."""

from dataclasses import replace

from penstock.clients.clickhouse.client import ClickHouse, ClickHouseSinkServer, ClickHouseSourceServer
from penstock.clients.http.auth import split_credentials
from penstock.settings import ClickHouseSettings, Settings


def source_server(settings: Settings) -> ClickHouseSourceServer:
    said, usual = settings.clickhouse_source, ClickHouseSourceServer().server
    server = replace(_server(said), settings=usual.settings, timeout_secs=said.query_timeout_sec)
    return ClickHouseSourceServer(server, said.page_size)


def sink_server(settings: Settings) -> ClickHouseSinkServer:
    said = settings.clickhouse_sink
    return ClickHouseSinkServer(_server(said), said.compression, said.compression_level, said.batch_size)


def _server(said: ClickHouseSettings) -> ClickHouse:
    """Return the server. User and password in its URL take precedence over separate settings."""
    url, username, password = split_credentials(said.url)
    return ClickHouse(url, username or said.user, password or said.password.get_secret_value(), said.database)
