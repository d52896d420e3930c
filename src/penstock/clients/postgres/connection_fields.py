"""Fields of connectors for the database that they read or write."""

from pydantic import AliasChoices, Field, SecretStr

from penstock.clients.postgres.server import PostgresServer
from penstock.config import FrozenModel, Secret, SslMode, Whole


class Login(FrozenModel):
    """A server and its login. Fields that are not set come from the settings."""

    host: str | None = None
    """The host. Default, here and below: the settings `POSTGRES_SINK__…`."""
    port: Whole | None = Field(None, ge=1, le=65535)
    """The port."""
    user: str | None = Field(None, validation_alias=AliasChoices("user", "username"))
    """The user name. `username` is an alias."""
    password: Secret | None = None
    """The password. It is never shown."""
    database: str | None = None
    """The database."""
    sslmode: SslMode | None = None
    """The SSL mode of the connection."""

    def override_server(self, usual: PostgresServer) -> PostgresServer:
        """Return the default server, with these fields in place of its own."""
        password = None if self.password is None else self.password.get_secret_value()
        login = {"host": self.host, "port": self.port, "user": self.user, "password": password}
        return usual.with_settings(**login, database=self.database, sslmode=self.sslmode)


class PostgresAddress(FrozenModel):
    """A server and its login, for connectors without settings."""

    host: str = "127.0.0.1"
    """The host."""
    port: Whole = Field(5432, ge=1, le=65535)
    """The port."""
    user: str = Field(validation_alias=AliasChoices("user", "username"))
    """The user name. `username` is an alias."""
    password: Secret = SecretStr("")
    """The password. It is never shown."""
    database: str
    """The database."""
    sslmode: SslMode = "prefer"
    """The SSL mode of the connection."""

    @property
    def server(self) -> PostgresServer:
        password = self.password.get_secret_value()
        return PostgresServer(self.host, self.port, self.user, password, self.database, self.sslmode)
