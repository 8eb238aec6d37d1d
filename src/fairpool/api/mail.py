"""The mail server, as requests and answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, StrictInt, StringConstraints

from fairpool.api.access import Email
from fairpool.api.wire import Answer, Moment, Request, ShortText

Host = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$")]


class MailSecurity(StrEnum):
    """How the connection to the mail server is encrypted."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


class MailSettingsRequest(Request):
    """The whole settings. A user name without a password keeps the password that was set for it before."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "host": "smtp.example.com",
                    "port": 587,
                    "security": "starttls",
                    "from": "fairpool@example.com",
                    "username": "fairpool",
                    "password": "correct horse battery",
                }
            ]
        }
    )
    host: Host
    port: Annotated[StrictInt, Field(ge=1, le=65535)] = 587
    security: MailSecurity = MailSecurity.STARTTLS
    sender: Annotated[Email, Field(alias="from")]
    username: ShortText = ""
    password: Annotated[str, StringConstraints(max_length=1024)] | None = None
    ca_certificate: Annotated[str, StringConstraints(max_length=65536)] = ""


class MailSettings(Answer):
    """The mail server. Its password is never shown."""

    host: str
    port: int
    security: MailSecurity
    sender: Annotated[str, Field(alias="from", examples=["fairpool@example.com"])]
    username: str = ""
    has_password: bool = False
    ca_certificate: str = ""
    updated_at: Moment | None = None
    updated_by: str = ""


class StoredMailServer(Answer):
    """As it is kept in the database."""

    host: str
    port: int
    security: str
    sender: str
    username: str = ""
    sealed_password: str = ""
    ca_certificate: str = ""


class TestMailRequest(Request):
    """`POST /api/v1/mail/test`."""

    __test__ = False  # no test case, whatever its name
    model_config = ConfigDict(json_schema_extra={"examples": [{"to": "ann@example.com"}]})
    to: Email


class TestMailAnswer(Answer):
    """The mail server has taken the message."""

    __test__ = False
    to: str
    accepted: bool = True
