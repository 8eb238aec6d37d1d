"""HTTP routes for settings that administrators change while the platform runs, and their values.

Their defaults come from `settings.py`, which is fixed when the platform starts; changed values are in the database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import settings as wire
from fairpool.api.problems import problem_item
from fairpool.control.moments import iso_or_none
from fairpool.control.outbound_rules import hosts_problem
from fairpool.control.password_rules import PasswordRules, password_problems
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused, unknown
from fairpool.control.routes import Routes
from fairpool.control.settings import Settings
from fairpool.control.store import changes
from fairpool.control.store import identity_providers as provider_store
from fairpool.control.store import preferences as store
from fairpool.control.store.database import Connection
from fairpool.model.organization import DEFAULT_GRACES, GraceRules

routes = Routes("settings")

DAY_S = 86_400
HOSTS_MAX = 4096
CONTACT_MAX = 512
MAIL_ADDRESS = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", re.ASCII)
CONTACT_URL = re.compile(r"https?://[!#-;=?-\[\]_a-z~]+", re.ASCII)
"""Without spaces, quotes, angle brackets and what else is not in a URL."""
TIMEOUT_PATH = "/api/v1/security/settings/browserSessionTimeout"
REDIRECT_PATH = "/api/v1/security/settings/autoRedirectSSO"


@dataclass(frozen=True, slots=True)
class Preference:
    """One setting: its description and the values it may have."""

    category: str
    label: str
    description: str
    least: int | None = None
    most: int | None = None
    declared: bool = False
    """Part of what is declared to clusters."""
    is_paths: bool = False
    """A list of directories, as text."""
    is_hosts: bool = False
    """A list of hosts, as text."""
    is_provider: bool = False
    """The name of an identity provider, or empty."""
    is_contact: bool = False
    """A mail address or the URL of a page, or empty."""

    @property
    def type(self) -> str:
        if self.is_paths or self.is_hosts or self.is_provider or self.is_contact:
            return "string"
        return "boolean" if self.least is None else "integer"


DEPARTMENTS = "department.use"
ACCESS_TOKEN = "security.accessTokenSeconds"
REFRESH_TOKEN = "security.refreshTokenSeconds"
SESSION_IDLE = "security.sessionIdleSeconds"
SESSION_MAX = "security.sessionMaxSeconds"
BROWSER_IDLE = "security.browserIdleMinutes"
DIRECTORY_ID_MIN = "security.directoryIdMinimum"
PASSWORD_LENGTH = "security.passwordMinLength"
PASSWORD_CLASSES = "security.passwordMinClasses"
PASSWORD_COMMON = "security.passwordRefuseCommon"
PASSWORD_LINK = "security.passwordLinkMinutes"
KEY_CONFIRMED = "security.accessKeyConfirmedDays"
PRIVATE_PROVIDERS = "security.privateIdentityProviders"
SIGN_IN_PROVIDER = "security.signInProvider"
UPLOAD_SIZE = "uploads.maxMebibytes"
UPLOAD_FILES = "uploads.maxFiles"
UPLOADS_TOTAL = "uploads.totalMebibytes"
HOST_ROOTS = "storage.hostPathRoots"
GIT_TIMEOUT = "storage.gitTimeoutSeconds"
GIT_SIZE = "storage.gitMaxMebibytes"
PRIVATE_REGISTRIES = "registries.private"
GRACE = "workload.gracePeriodMaxSeconds"
EVICTION_GRACE = "workload.evictionGracePeriodSeconds"
SUPPORT_CONTACT = "support.contact"
SUPPORT_FEEDBACK = "support.feedback"

NOTIFICATIONS = "notifications.enabled"
NOTIFICATION_MAIL = "notifications.mail"
WEBHOOK_HOSTS = "notifications.webhookHosts"
WEBHOOK_PRIVATE = "notifications.webhookPrivate"

PREFERENCES: Mapping[str, Preference] = MappingProxyType(
    {
        DEPARTMENTS: Preference(
            "General",
            "Departments",
            "Departments have their own quotas, above those of their projects. If off, only project quotas apply",
            declared=True,
        ),
        ACCESS_TOKEN: Preference(
            "Security",
            "Token lifetime, in seconds",
            "How long a token is valid before it must be renewed. Applies to new sign-ins",
            60,
            30 * DAY_S,
        ),
        REFRESH_TOKEN: Preference(
            "Security",
            "Refresh token lifetime, in seconds",
            "How long a sign-in can be renewed. Applies to new sign-ins",
            60,
            365 * DAY_S,
        ),
        SESSION_IDLE: Preference(
            "Security",
            "Idle limit of sessions, in seconds",
            "A session of a command or program that is unused for so long ends. 0: no limit. Browsers have their own",
            0,
            365 * DAY_S,
        ),
        SESSION_MAX: Preference(
            "Security",
            "Time limit of sessions, in seconds",
            "A session ends after this time, however often it is renewed. 0: no limit. Applies to new sign-ins",
            0,
            10 * 365 * DAY_S,
        ),
        BROWSER_IDLE: Preference(
            "Security",
            "Idle limit of browser sessions, in minutes",
            "A browser that is unused for so long must sign in again. 0: no limit",
            0,
            365 * 24 * 60,
        ),
        PASSWORD_LENGTH: Preference(
            "Security", "Minimum password length", "Applies to passwords set from now on", 8, 128
        ),
        PASSWORD_CLASSES: Preference(
            "Security",
            "Kinds of characters in a password",
            "Of a-z, A-Z, 0-9 and others. Applies to passwords set from now on",
            1,
            4,
        ),
        PASSWORD_COMMON: Preference(
            "Security",
            "Refuse common passwords",
            "Those that guessing programs try first. Applies to passwords set from now on",
        ),
        PASSWORD_LINK: Preference(
            "Security",
            "Lifetime of a link for a new password, in minutes",
            "A link that was sent by mail to a user who forgot the password works once, within this time",
            1,
            7 * 24 * 60,
        ),
        DIRECTORY_ID_MIN: Preference(
            "Security",
            "Lowest uid and gid from a directory",
            "Pods that run with the uid, gid and groups of the directory are refused if one of them is lower. Root is "
            "always refused",
            1,
            1_000_000_000,
        ),
        KEY_CONFIRMED: Preference(
            "Security",
            "Access keys without a sign-in at the identity provider, in days",
            "Access keys of a user of an identity provider stop working when the user has not signed in there for so "
            "long, and work again after the next sign-in",
            1,
            3650,
        ),
        PRIVATE_PROVIDERS: Preference(
            "Security",
            "Identity providers in private networks",
            "Identity providers may have private or loopback addresses, and plain http URLs",
        ),
        SIGN_IN_PROVIDER: Preference(
            "Security",
            "Identity provider of the sign-in page",
            "The sign-in page leads to this identity provider at once. Empty: it offers every way in, as "
            "/sign-in?local=true always does",
            is_provider=True,
        ),
        UPLOAD_SIZE: Preference(
            "Uploads",
            "Maximum folder size, in MiB",
            "Largest folder that `runai submit --workdir` may upload for one job",
            1,
            1 << 20,
        ),
        UPLOAD_FILES: Preference(
            "Uploads", "Maximum number of files in a folder", "Files and folders in one upload", 1, 1_000_000
        ),
        UPLOADS_TOTAL: Preference(
            "Uploads", "Maximum total size of all folders, in MiB", "Uploads beyond this total are refused", 1, 1 << 30
        ),
        HOST_ROOTS: Preference(
            "Storage",
            "Folders of nodes that jobs may mount",
            "Comma-separated. Jobs submitted from now on can mount (-v) only what is in one of them, links resolved; "
            "/ allows all that the submitter can read, an empty list none",
            is_paths=True,
        ),
        GIT_TIMEOUT: Preference(
            "Storage", "Time limit of --git-sync, in seconds", "A clone that takes longer fails", 1, DAY_S
        ),
        GIT_SIZE: Preference(
            "Storage", "Size limit of --git-sync, in MiB", "A clone that becomes larger fails", 1, 1 << 20
        ),
        PRIVATE_REGISTRIES: Preference(
            "Storage",
            "Image registries in private networks",
            "The server may list the images of registries that have private or loopback addresses, or plain http URLs",
        ),
        NOTIFICATIONS: Preference(
            "Notifications", "Notifications", "Users are notified of their jobs. If off, notifications wait"
        ),
        NOTIFICATION_MAIL: Preference(
            "Notifications", "Notifications by mail", "Notifications are sent by mail. If off, they wait"
        ),
        WEBHOOK_HOSTS: Preference(
            "Notifications",
            "Hosts that webhooks may be on",
            "Comma-separated: hooks.example.com, *.example.com, ci.example.com:8443. An empty list allows none; "
            "loopback and link-local addresses are never reached",
            is_hosts=True,
        ),
        WEBHOOK_PRIVATE: Preference(
            "Notifications",
            "Webhooks to private addresses",
            "Allowed hosts may have addresses of private networks, such as 10.0.0.0/8",
        ),
        SUPPORT_CONTACT: Preference(
            "General",
            "Support contact",
            "Contact for help: a mail address, or the address of a page (https://...). Every user sees it",
            is_contact=True,
        ),
        SUPPORT_FEEDBACK: Preference(
            "General",
            "Feedback",
            "Where users send feedback: a mail address, or the address of a page (https://...). Every user sees it",
            is_contact=True,
        ),
        GRACE: Preference(
            "Workloads",
            "Maximum grace period, in seconds",
            "A stopping pod is killed after its grace period. A job that requests a longer one is refused",
            0,
            7 * DAY_S,
            declared=True,
        ),
        EVICTION_GRACE: Preference(
            "Workloads",
            "Grace period of preempted pods, in seconds",
            "A pod that is preempted for other workloads is killed after this time, whatever it requested",
            0,
            DAY_S,
            declared=True,
        ),
    }
)


def _defaults(settings: Settings) -> dict[str, bool | int | str]:
    return {
        DEPARTMENTS: True,
        ACCESS_TOKEN: settings.access_token_s,
        REFRESH_TOKEN: settings.refresh_token_s,
        SESSION_IDLE: 0,
        SESSION_MAX: max(90 * DAY_S, settings.access_token_s, settings.refresh_token_s),
        BROWSER_IDLE: 8 * 60,
        PASSWORD_LENGTH: 8,
        PASSWORD_CLASSES: 1,
        PASSWORD_COMMON: True,
        PASSWORD_LINK: 30,
        DIRECTORY_ID_MIN: 1000,
        KEY_CONFIRMED: 30,
        PRIVATE_PROVIDERS: False,
        SIGN_IN_PROVIDER: "",
        UPLOAD_SIZE: 256,
        UPLOAD_FILES: 20_000,
        UPLOADS_TOTAL: 20 << 10,
        HOST_ROOTS: "/",
        GIT_TIMEOUT: 600,
        GIT_SIZE: 10 << 10,
        PRIVATE_REGISTRIES: False,
        NOTIFICATIONS: True,
        NOTIFICATION_MAIL: True,
        WEBHOOK_HOSTS: "",
        WEBHOOK_PRIVATE: False,
        SUPPORT_CONTACT: "",
        SUPPORT_FEEDBACK: "",
        GRACE: DEFAULT_GRACES.most_s,
        EVICTION_GRACE: DEFAULT_GRACES.eviction_s,
    }


def current_value(settings: Settings, connection: Connection, key: str) -> int:
    """The current value; of a switch, 0 or 1."""
    row = store.one(connection, key)
    return int(json.loads(row.value)) if row is not None else int(_defaults(settings)[key])


def host_roots(settings: Settings, connection: Connection) -> tuple[str, ...]:
    """The directories of nodes that may be mounted."""
    row = store.one(connection, HOST_ROOTS)
    return _paths(json.loads(row.value) if row is not None else str(_defaults(settings)[HOST_ROOTS]))


def _paths(text: str) -> tuple[str, ...]:
    said = (each.strip() for each in text.split(","))
    # `/data/` is `/data`; `//` remains, which is refused.
    return tuple(dict.fromkeys(each.removesuffix("/") if each.strip("/") else each for each in said if each))


def webhook_hosts(connection: Connection) -> tuple[str, ...]:
    """The hosts that webhooks of users may be on."""
    row = store.one(connection, WEBHOOK_HOSTS)
    return _hosts(json.loads(row.value)) if row is not None else ()


def _hosts(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))


def support_link(connection: Connection, key: str) -> str | None:
    """What a link to the contact leads to; None: an administrator has named none."""
    row = store.one(connection, key)
    said = str(json.loads(row.value)) if row is not None else ""
    if not said:
        return None
    return f"mailto:{said}" if MAIL_ADDRESS.fullmatch(said) else said


def is_contact(text: str) -> bool:
    """Whether it is a mail address or the URL of a page. No other kind of URL: pages show it as a link."""
    if MAIL_ADDRESS.fullmatch(text):
        return True
    if len(text) > CONTACT_MAX or CONTACT_URL.fullmatch(text) is None:
        return False
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and (parts.port is None or parts.port > 0) and "@" not in parts.netloc
    except ValueError:
        return False


def chosen_provider(connection: Connection) -> str:
    """The identity provider that an administrator chose for the sign-in page, whether there is one or not."""
    row = store.one(connection, SIGN_IN_PROVIDER)
    return str(json.loads(row.value)) if row is not None else ""


def sign_in_provider(connection: Connection) -> str:
    """The identity provider that the sign-in page leads to; empty: none."""
    alias = chosen_provider(connection)
    return alias if alias and provider_store.provider(connection, alias) is not None else ""


def graces(settings: Settings, connection: Connection) -> GraceRules:
    """How long pods may take to stop."""
    return GraceRules(
        most_s=current_value(settings, connection, GRACE),
        eviction_s=current_value(settings, connection, EVICTION_GRACE),
    )


def check_password(settings: Settings, connection: Connection, password: str, field: str, user: str) -> None:
    """Refuse a password that breaks a rule, with everything that is wrong."""
    rules = PasswordRules(
        least=current_value(settings, connection, PASSWORD_LENGTH),
        classes=current_value(settings, connection, PASSWORD_CLASSES),
        refuses_common=bool(current_value(settings, connection, PASSWORD_COMMON)),
    )
    problems = password_problems(password, user, rules)
    if problems:
        raise Refused(422, [problem_item(each, field) for each in problems])


@routes.get("/api/v1/settings", action=Action.SETTING_READ, answer=wire.SettingPage, summary="List all settings")
async def settings(plane: Plane, caller: Caller) -> wire.SettingPage:
    caller.require(Action.SETTING_READ)
    return wire.SettingPage(settings=await plane.read(lambda connection: _all(plane, connection)))


@routes.get(
    "/v1/k8s/setting",
    action=Action.SETTING_READ,
    answer=list[wire.SettingText],
    summary="List all settings, with their values as text",
)
async def settings_as_text(plane: Plane, caller: Caller) -> list[wire.SettingText]:
    caller.require(Action.SETTING_READ)
    everything = await plane.read(lambda connection: _all(plane, connection))
    return [wire.SettingText(**dict(each) | {"value": _as_text(each.value)}) for each in everything]


@routes.get(
    "/v1/k8s/setting/{key}", action=Action.SETTING_READ, summary="Get the value of a setting, as a bare JSON value"
)
async def setting_value(key: str, plane: Plane, caller: Caller, request: Request) -> Response:
    caller.require(Action.SETTING_READ)
    _check_key(request, key)
    found = await plane.read(lambda connection: _one(plane, connection, key))
    return Response(json.dumps(found.value), media_type="application/json")


def _as_text(value: wire.SettingValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _of_text(preference: Preference, value: wire.SettingValue) -> wire.SettingValue:
    """A value that was given as text, as the original's client reads and writes it."""
    if preference.is_paths or preference.is_provider or preference.is_contact or not isinstance(value, str):
        return value
    try:
        read = json.loads(value)
    except ValueError:
        return value
    return read if isinstance(read, bool | int) else value


@routes.get(
    "/api/v1/security/settings",
    action=Action.SETTING_READ,
    answer=wire.SecuritySettings,
    summary="List security settings",
)
async def security_settings(plane: Plane, caller: Caller) -> wire.SecuritySettings:
    caller.require(Action.SETTING_READ)
    everything, alias = await plane.read(lambda connection: (_all(plane, connection), sign_in_provider(connection)))
    idle = next(int(each.value) for each in everything if each.key == BROWSER_IDLE)
    return wire.SecuritySettings(
        auto_redirect_sso=_redirect(alias),
        settings=[each for each in everything if each.category == "Security"],
        browser_session_timeout=wire.BrowserSessionTimeout(idle_timeout=idle),
    )


@routes.get(
    TIMEOUT_PATH,
    action=Action.SETTING_READ,
    answer=wire.BrowserSessionTimeout,
    summary="Get the idle limit of browser sessions",
)
async def browser_session_timeout(plane: Plane, caller: Caller) -> wire.BrowserSessionTimeout:
    caller.require(Action.SETTING_READ)
    idle = await plane.read(lambda connection: current_value(plane.settings, connection, BROWSER_IDLE))
    return wire.BrowserSessionTimeout(idle_timeout=idle)


@routes.get(
    REDIRECT_PATH,
    action=Action.SETTING_READ,
    answer=wire.AutoRedirect,
    summary="Get the identity provider that the sign-in page leads to",
)
async def auto_redirect(plane: Plane, caller: Caller) -> wire.AutoRedirect:
    caller.require(Action.SETTING_READ)
    return _redirect(await plane.read(sign_in_provider))


def _redirect(alias: str) -> wire.AutoRedirect:
    return wire.AutoRedirect(enabled=bool(alias), idp_alias=alias or None)


@routes.put(
    REDIRECT_PATH,
    action=Action.SETTING_WRITE,
    answer=wire.Setting,
    summary="Change the identity provider that the sign-in page leads to",
)
async def choose_auto_redirect(
    request: Request, plane: Plane, caller: Caller, body: wire.AutoRedirectRequest
) -> Response:
    if body.enabled and not body.idp_alias:
        what = "the identity provider to lead to is missing"
        raise refused(422, "setting.wrong_value", what, "set idpAlias", "idpAlias")
    return await _choose(request, plane, caller, SIGN_IN_PROVIDER, (body.idp_alias or "") if body.enabled else "")


@routes.put(
    TIMEOUT_PATH,
    action=Action.SETTING_WRITE,
    answer=wire.Setting,
    summary="Change the idle limit of browser sessions",
)
async def choose_browser_session_timeout(
    request: Request, plane: Plane, caller: Caller, body: wire.BrowserSessionTimeoutRequest
) -> Response:
    return await _choose(request, plane, caller, BROWSER_IDLE, body.idle_timeout)


@routes.get("/api/v1/settings/{key}", action=Action.SETTING_READ, answer=wire.Setting, summary="Get a setting")
@routes.get(
    "/api/v1/security/settings/{key}", action=Action.SETTING_READ, answer=wire.Setting, summary="Get a security setting"
)
async def setting(key: str, plane: Plane, caller: Caller, request: Request) -> Response:
    caller.require(Action.SETTING_READ)
    _check_key(request, key)
    found = await plane.read(lambda connection: _one(plane, connection, key))
    return answered(ActionResult(body=found, revision=found.revision))


@routes.put(
    "/v1/k8s/setting", action=Action.SETTING_WRITE, answer=wire.Setting, summary="Change the setting named in the body"
)
async def choose_named(request: Request, plane: Plane, caller: Caller, body: wire.NamedSettingRequest) -> Response:
    return await _choose(request, plane, caller, body.key, body.value)


@routes.put("/api/v1/settings/{key}", action=Action.SETTING_WRITE, answer=wire.Setting, summary="Change a setting")
@routes.put("/v1/k8s/setting/{key}", action=Action.SETTING_WRITE, answer=wire.Setting, summary="Change a setting")
@routes.put(
    "/api/v1/security/settings/{key}",
    action=Action.SETTING_WRITE,
    answer=wire.Setting,
    summary="Change a security setting",
)
async def choose(key: str, request: Request, plane: Plane, caller: Caller, body: wire.SettingRequest) -> Response:
    return await _choose(request, plane, caller, key, body.value)


async def _choose(request: Request, plane: Plane, caller: Caller, key: str, value: wire.SettingValue) -> Response:
    caller.require(Action.SETTING_WRITE)
    preference = _check_key(request, key)

    def unit(connection: Connection) -> ActionResult:
        before = _one(plane, connection, key)
        check_match(request, before.revision)
        said = _of_text(preference, value)
        _check_value(key, preference, said)
        if preference.is_provider and said and provider_store.provider(connection, str(said)) is None:
            raise refused(422, "setting.wrong_value", f"there is no identity provider {said!r}", "connect it first")
        chosen = ",".join(_paths(said)) if preference.is_paths and isinstance(said, str) else said
        revision = choose_value(plane, connection, key, chosen, caller.name)
        made = _one(plane, connection, key).model_copy(update={"msg": f"{key} was changed"})
        name = f"{key} = {json.dumps(chosen)}"
        return ActionResult(
            body=made, action="update", entity_type="setting", entity_id=key, entity_name=name, revision=revision
        )

    return await plane.perform(request, caller, unit)


def choose_value(plane: Plane, connection: Connection, key: str, value: wire.SettingValue, by: str) -> int:
    """Change a setting; its new revision."""
    now, kept, is_declared = plane.now(), plane.settings.changes_kept, PREFERENCES[key].declared
    revision = changes.record(connection, "setting", key, "updated", now, declared=is_declared, kept=kept)
    store.put(connection, key, json.dumps(value), now, by, revision)
    return revision


def _check_key(request: Request, key: str) -> Preference:
    preference = PREFERENCES.get(key)
    of_sign_in = request.url.path.startswith("/api/v1/security/")
    if preference is None or (of_sign_in and preference.category != "Security"):
        raise unknown("setting", key)
    return preference


def _check_value(key: str, preference: Preference, value: wire.SettingValue) -> None:
    if preference.is_paths:
        fits = isinstance(value, str) and all(_is_root(each) for each in _paths(value))
        fix = "use absolute paths without .. or double slashes, separated by commas"
    elif preference.is_hosts:
        fits = isinstance(value, str) and len(value) <= HOSTS_MAX and hosts_problem(_hosts(value)) is None
        fix = "use host names, separated by commas: hooks.example.com,*.example.com,ci.example.com:8443"
    elif preference.is_contact:
        fits = isinstance(value, str) and (value == "" or is_contact(value))
        fix = "use a mail address, the https:// address of a page, or an empty text for none"
    elif preference.is_provider:
        fits, fix = isinstance(value, str), "use the name of an identity provider"
    elif preference.least is None or preference.most is None:
        fits, fix = isinstance(value, bool), "use true or false"
    else:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        fits = is_number and preference.least <= int(value) <= preference.most
        fix = f"use a number from {preference.least} to {preference.most}"
    if not fits:
        raise refused(422, "setting.wrong_value", f"{value!r} is not a valid value for {key}", fix, "value")


def _is_root(path: str) -> bool:
    is_normal = path == "/" or not ({"", ".", ".."} & set(path[1:].split("/")))
    return path.startswith("/") and is_normal and path.isprintable()


def _all(plane: Plane, connection: Connection) -> list[wire.Setting]:
    return [_one(plane, connection, key) for key in sorted(PREFERENCES)]


def _one(plane: Plane, connection: Connection, key: str) -> wire.Setting:
    preference, default = PREFERENCES[key], _defaults(plane.settings)[key]
    row: Any = store.one(connection, key)
    return wire.Setting(
        key=key,
        value=json.loads(row.value) if row is not None else default,
        default=default,
        type=preference.type,
        category=preference.category,
        label=preference.label,
        description=preference.description,
        updated_at=iso_or_none(row.updated_at if row is not None else None),
        updated_by=row.updated_by if row is not None else "",
        revision=row.revision if row is not None else 0,
    )
