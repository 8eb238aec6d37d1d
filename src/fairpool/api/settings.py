"""Settings that administrators change while the platform runs, as requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StrictBool, StrictInt, StringConstraints

from fairpool.api.wire import Answer, Moment, Page, Request, ShortText

SettingValue = StrictBool | StrictInt | Annotated[str, StringConstraints(max_length=4096)]


class SettingRequest(Request):
    """The new value of a setting."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"value": 3600}]})
    value: SettingValue


class NamedSettingRequest(SettingRequest):
    """The key and new value of a setting."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"key": "department.use", "value": False}]})
    key: ShortText


class Setting(Answer):
    """One setting."""

    key: Annotated[str, Field(examples=["department.use"])]
    value: SettingValue
    default: SettingValue
    type: Annotated[str, Field(examples=["boolean"])]
    category: Annotated[str, Field(examples=["General"])]
    label: str
    description: str
    stage: str = "GA"
    active: bool = True
    updated_at: Annotated[Moment | None, Field(description="Absent if it was never changed")] = None
    updated_by: str = ""
    msg: Annotated[str | None, Field(description="In the answer to a change")] = None
    revision: int = 0


class SettingText(Answer):
    """One setting, with its value as text."""

    key: str
    value: Annotated[str, Field(examples=["true"])]
    type: str
    category: str
    label: str
    description: str
    stage: str = "GA"
    active: bool = True


class SettingPage(Page):
    """Settings, by key."""

    settings: list[Setting]


class BrowserSessionTimeout(Answer):
    """The idle limit of browser sessions, as the original's client knows it."""

    idle_timeout: Annotated[int, Field(description="Minutes; 0: no limit", examples=[480])]


class BrowserSessionTimeoutRequest(Request):
    """`PUT /api/v1/security/settings/browserSessionTimeout`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"idleTimeout": 480}]})
    idle_timeout: Annotated[StrictInt, Field(ge=1, le=365 * 24 * 60)]


class AutoRedirect(Answer):
    """The identity provider that the sign-in page leads to, as the original's client knows it."""

    enabled: bool
    idp_alias: Annotated[str | None, Field(description="Absent if it is off", examples=["company"])] = None


class AutoRedirectRequest(Request):
    """`PUT /api/v1/security/settings/autoRedirectSSO`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": True, "idpAlias": "company"}]})
    enabled: StrictBool
    idp_alias: Annotated[ShortText | None, Field(description="Needed to switch it on")] = None


class SecuritySettings(SettingPage):
    """Security settings, by key; some also under the names of the original's client."""

    auto_redirect_sso: Annotated[AutoRedirect, Field(alias="autoRedirectSSO")]
    browser_session_timeout: BrowserSessionTimeout
