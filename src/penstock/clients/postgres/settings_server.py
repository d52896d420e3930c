"""The PostgreSQL server that the application's settings name for a sink."""

from penstock.clients.postgres.server import PostgresServer
from penstock.settings import PostgresConnection, Settings, connection_name


def sink_server(settings: Settings, sink: str) -> PostgresServer:
    """Return the server for a sink: that of all sinks, with the settings of this one applied."""
    server = _with_connection(PostgresServer(), settings.postgres_sink)
    own = settings.postgres_sink_connections.get(connection_name(sink))
    return server if own is None else _with_connection(server, own)


def _with_connection(server: PostgresServer, said: PostgresConnection) -> PostgresServer:
    return server.with_settings(
        host=said.host,
        port=said.port,
        user=said.user,
        password=None if said.pass_ is None else said.pass_.get_secret_value(),
        database=said.db,
        sslmode=said.sslmode,
        sslrootcert=said.sslrootcert,
    )
