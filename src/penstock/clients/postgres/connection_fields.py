"""What connectors can say of the database that they read or write."""

from pydantic import AliasChoices, Field, SecretStr

from penstock.clients.postgres.server import PostgresServer
from penstock.config import FrozenModel, Secret, SslMode, Whole


class Login(FrozenModel):
    """A server, and as whom it is entered. What is left out is as the settings say."""

    host: str | None = None
    """The server; that of the settings `POSTGRES_SINK__…` if left out, as with all that follows."""
    port: Whole | None = Field(None, ge=1, le=65535)
    """Its port."""
    user: str | None = Field(None, validation_alias=AliasChoices("user", "username"))
    """The user. `username` is the same field."""
    password: Secret | None = None
    """The password; never shown again."""
    database: str | None = None
    """The database."""
    sslmode: SslMode | None = None
    """How the connection is secured."""

    def override_server(self, usual: PostgresServer) -> PostgresServer:
        """The usual server, with what is said here in place of its own."""
        said = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password and self.password.get_secret_value(),
            "database": self.database,
            "sslmode": self.sslmode,
        }
        return usual.with_settings({name: value for name, value in said.items() if value is not None})


class PostgresAddress(FrozenModel):
    """A server, and as whom it is entered, for those that no settings are for."""

    host: str = "127.0.0.1"
    """The server."""
    port: Whole = Field(5432, ge=1, le=65535)
    """Its port."""
    user: str = Field(validation_alias=AliasChoices("user", "username"))
    """The user. `username` is the same field."""
    password: Secret = SecretStr("")
    """The password; never shown again."""
    database: str
    """The database."""
    sslmode: SslMode = "prefer"
    """How the connection is secured."""

    @property
    def server(self) -> PostgresServer:
        password = self.password.get_secret_value()
        return PostgresServer(self.host, self.port, self.user, password, self.database, self.sslmode)
