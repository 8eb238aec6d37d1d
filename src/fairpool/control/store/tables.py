"""Table definitions.

Each fact has one writer. What people declare and what a cluster reports about the same workload are different columns.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMING)

revision = Table(
    "revision",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("value", BigInteger, nullable=False),
    Column("declared", BigInteger, nullable=False),
    Column("oldest", BigInteger, nullable=False),
    Column("organization", BigInteger, nullable=False, server_default="0"),
    Column("access", BigInteger, nullable=False, server_default="0"),
    Column("revoked", BigInteger, nullable=False, server_default="0"),
)
"""One row: the last change, the last one that clusters must hear of, from where on changes are listed, the last change
of what clusters pull besides workloads, and two random numbers that change whenever a caller may have changed
(`store/access_revision.py`)."""

changes = Table(
    "changes",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("noun", String(32), nullable=False),
    Column("id", String(128), nullable=False),
    Column("project", String(64)),
    Column("verb", String(32), nullable=False),
    Column("declared", Boolean, nullable=False),
    Column("at", BigInteger, nullable=False),
)
"""What changed, in the order in which it did; `declared` is what clusters must hear of."""

users = Table(
    "users",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("email", String(256), nullable=False, unique=True),
    Column("password_hash", Text, nullable=False),
    Column("must_change", Boolean, nullable=False),
    Column("first_password", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False, server_default=""),
    Column("updated_at", BigInteger),
    Column("last_login_at", BigInteger),
    Column("identity_provider", String(64)),
    Column("disabled", Boolean, nullable=False, server_default=false()),
)
"""`identity_provider` is empty for accounts whose password is kept here. A disabled user cannot sign in."""

user_groups = Table(
    "user_groups",
    metadata,
    Column("user_id", String(64), primary_key=True),
    Column("group_name", String(256), primary_key=True),
)
"""Groups of users, as their identity provider told them at the last sign-in."""

applications = Table(
    "applications",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(256), nullable=False, unique=True),
    Column("secret_hash", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("kind", String(16), nullable=False, server_default="app"),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("created_by", String(256), nullable=False, server_default=""),
    Column("updated_at", BigInteger),
    Column("last_login_at", BigInteger),
    Column("former_secret_hash", String(64)),
    Column("former_until", BigInteger),
)
"""Accounts of programs: applications and service accounts. The former secret is valid until `former_until`."""

access_keys = Table(
    "access_keys",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("name", String(64), nullable=False),
    Column("secret_hash", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("last_login_at", BigInteger),
    Column("former_secret_hash", String(64)),
    Column("former_until", BigInteger),
    Column("scope", Text),
    UniqueConstraint("owner", "name"),
)
"""Keys with which a user's own programs sign in as the user. `scope` restricts what a key may be used for, as JSON."""

access_rules = Table(
    "access_rules",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("subject_id", String(256), nullable=False, index=True),
    Column("subject_type", String(16), nullable=False),
    Column("role", String(32), nullable=False),
    Column("scope_type", String(16), nullable=False),
    Column("scope_id", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("number", BigInteger),
    Index("ix_access_rules_number", "number", unique=True),
)
"""`role` is the key of a role: the name of a built-in one, the number of a custom one. `number` is the id that clients
of the original know; it is never used again."""

roles = Table(
    "roles",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("key", String(32), nullable=False, unique=True),
    Column("name", String(64), nullable=False),
    Column("name_key", String(64), nullable=False, unique=True),
    Column("description", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("permissions", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
"""Custom roles; the built-in ones are in `control/builtin_roles.py`."""

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""The last number that was given out for each purpose."""

tokens = Table(
    "tokens",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("family", String(64), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("subject_id", String(64), nullable=False, index=True),
    Column("subject_type", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, index=True),
)
"""Only their hashes. Revoked means deleted."""

identity_providers = Table(
    "identity_providers",
    metadata,
    Column("alias", String(64), primary_key=True),
    Column("type", String(16), nullable=False),
    Column("document", Text, nullable=False),
    Column("sealed", Text, nullable=False),
    Column("key_id", String(32), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
"""`document` is what may be shown; `sealed` the client secret, encrypted with the key of `key_id`."""

provider_accounts = Table(
    "provider_accounts",
    metadata,
    Column("provider", String(64), primary_key=True),
    Column("subject", String(256), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("unix_identity", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("confirmed_at", BigInteger, nullable=False, server_default=text("0")),
)
"""Which user an account of a provider signs in as, and the uid, gid and groups that it was last seen with.
`confirmed_at`: when the provider last said that it exists, at a sign-in or a renewal; 0: not yet."""

provider_sessions = Table(
    "provider_sessions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("provider", String(64), nullable=False, index=True),
    Column("subject", String(256), nullable=False),
    Column("sid", String(256), nullable=False),
    Column("user_id", String(64), nullable=False, index=True),
    Column("sealed", Text, nullable=False),
    Column("key_id", String(32), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
"""Sign-ins at a provider, with its refresh token (`sealed`; empty: it gave none). `sid` is its own name for it."""

provider_session_families = Table(
    "provider_session_families",
    metadata,
    Column("family", String(64), primary_key=True),
    Column("session", String(64), nullable=False, index=True),
)
"""Families of tokens that came of a sign-in at a provider: the browser's, and those of commands it let in."""

sign_in_tickets = Table(
    "sign_in_tickets",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("document", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
)
"""Sign-ins on their way, one-time links, tickets of the gateway, device codes, and SAML assertions and logout tokens
that were used. Codes are only hashes."""

attempts = Table(
    "attempts",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("times", Integer, nullable=False),
    Column("at", BigInteger, nullable=False, index=True),
)
"""Failed sign-ins by user and address, and other attempts that are limited. Names are only hashes."""

known_addresses = Table(
    "known_addresses",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("at", BigInteger, nullable=False, index=True),
)
"""Users with addresses that they have signed in from, as hashes."""

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("subject_id", String(64), nullable=False, index=True),
    Column("subject_type", String(16), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("method", String(32), nullable=False, server_default=""),
    Column("client", String(128), nullable=False),
    Column("source_ip", String(64), nullable=False),
    Column("access_key", String(64), index=True),
    Column("created_at", BigInteger, nullable=False),
    Column("used_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
)
"""Sign-ins, by the family of their tokens. `used_at` is some seconds late: it is not written at each request."""

departments = Table(
    "departments",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("document", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False, server_default="0", index=True),
)

projects = Table(
    "projects",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("department", String(64), nullable=False, index=True),
    Column("cluster", String(64), nullable=False),
    Column("phase", String(16), nullable=False),
    Column("document", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False, server_default="0", index=True),
    Column("color_slot", Integer, nullable=False, server_default="0"),
)

left_colors = Table(
    "left_colors",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("slot", Integer, nullable=False),
    Column("left_at", BigInteger, nullable=False),
)
"""Colour slots of projects that were deleted lately."""

node_pools = Table(
    "node_pools",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("document", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False, server_default="0", index=True),
    Column("created_by", String(256), nullable=False, server_default=""),
    Column("updated_by", String(256), nullable=False, server_default=""),
)
"""`number` of a department, project or pool: its id on older paths and in assets, the revision that created it."""

topologies = Table(
    "topologies",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("document", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
)

node_overrides = Table(
    "node_overrides",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("node", String(256), primary_key=True),
    Column("document", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
)
"""What an administrator set for a node; what the cluster reports about it is in `nodes`."""

page_preferences = Table(
    "page_preferences",
    metadata,
    Column("user_id", String(64), primary_key=True),
    Column("document", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
"""What users chose in the web UI."""

preferences = Table(
    "preferences",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("updated_by", String(256), nullable=False),
    Column("revision", BigInteger, nullable=False),
)
"""Settings that an administrator changed; the others have their defaults."""

clusters = Table(
    "clusters",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("domain", String(256), nullable=False),
    Column("version", String(256), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    # from here on: what the cluster's reports said
    Column("report_token", BigInteger),
    Column("report_number", BigInteger, nullable=False),
    Column("events_through", BigInteger, nullable=False),
    Column("needs_resync", Boolean, nullable=False),
    Column("last_seen_at", BigInteger),
    Column("nodes_version", BigInteger, nullable=False, server_default="0"),
    Column("installation", String(64)),  # the data directory that joined; none yet, or its token was replaced
)

cluster_equipment = Table(
    "cluster_equipment",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("document", Text, nullable=False),
    Column("reported_at", BigInteger, nullable=False),
)
"""What clusters with objects of their own report about them: addresses, claims, storage classes."""

nodes = Table(
    "nodes",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("name", String(256), primary_key=True),
    Column("document", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False, server_default="0"),
    Column("updated_at", BigInteger, nullable=False, server_default="0"),
)

queue_reports = Table(
    "queue_reports",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("pool", String(64), primary_key=True),
    Column("queue", String(128), primary_key=True),
    Column("document", Text, nullable=False),
)

# Lists show workloads that are not deleted, however many deleted ones are kept. Each index holds everything that a page
# is selected and sorted by, since the rows themselves are long.
_EXISTING = text("deleted_at IS NULL")

workloads = Table(
    "workloads",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("name_key", String(128), unique=True),
    Column("project", String(64), nullable=False),
    Column("department", String(64), nullable=False),
    Column("cluster", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("submitted_by", String(256), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("requested_gpus_milli", BigInteger, nullable=False),
    Column("desired_state", String(16), nullable=False),
    Column("run", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("declaration", Text, nullable=False),
    # from here on: what the cluster reported
    Column("report", Text),
    Column("report_revision", BigInteger, nullable=False, server_default="0"),
    Column("deleted_at", BigInteger),
    # from here on: what follows from both
    Column("phase", String(16), nullable=False),
    Column("status", String(64), nullable=False, server_default=""),
    Column("allocated_gpus_milli", BigInteger, nullable=False),
    Column("running_pods", Integer, nullable=False),
    Column("started_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("urls", Text),
    Index("ix_workloads_created_at", "created_at"),
    # Only the deleted ones: a list of the others must not be led to it.
    Index(
        "ix_workloads_deleted_at",
        "deleted_at",
        sqlite_where=text("deleted_at IS NOT NULL"),
    ),
    Index(
        "ix_workloads_with_urls",
        "cluster",
        sqlite_where=text("urls IS NOT NULL"),
    ),
    *(
        Index(
            f"ix_workloads_existing_{'_'.join(columns)}",
            *columns,
            "id",
            sqlite_where=_EXISTING,
        )
        for columns in (
            ("created_at",),
            ("name",),
            ("phase", "created_at"),
            ("phase", "name"),
            ("project", "created_at"),
        )
    ),
)
"""A workload: columns, and two documents because it has two writers.

`declaration` is written by requests and `report` by the cluster's reports, each read and written whole
(`control/workload_documents.py`). One document for both would make a suspend and a report, which arrive at any time,
overwrite each other's half. Columns hold what lists filter, sort and count by, what permissions are checked by, and
what other rows refer to. Answers are not stored: they are rendered from the row (`control/items.py`), so that an
upgrade shows every workload in its own way. The last columns follow from both documents; `control/workload_columns.py`
computes them whenever one of the two changes.

`name_key` holds the name as long as it is taken: a workload that is being deleted has given it up. `urls` are the
addresses that its running pods have, with spaces between: not those that another workload had first.
"""

workload_labels = Table(
    "workload_labels",
    metadata,
    Column("workload", String(64), primary_key=True),
    Column("key", String(320), primary_key=True),
    Column("value", Text, nullable=False),
)
"""Labels of workloads, for filters; the declaration has them too."""

pods = Table(
    "pods",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("workload", String(64), nullable=False, index=True),
    Column("pod_index", Integer, nullable=False),
    Column("incarnation", Integer, nullable=False),
    Column("phase", String(16), nullable=False),
    Column("document", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
)
"""Pods as last reported. Those that were replaced are history: they go with their workload, or when many more
have followed."""

holdings = Table(
    "holdings",
    metadata,
    Column("pod", String(128), primary_key=True),
    Column("workload", String(64), nullable=False, index=True),
    Column("cluster", String(64), nullable=False),
    Column("node", String(256), nullable=False),
    Column("devices", Text, nullable=False),
    Column("gpus_milli", BigInteger, nullable=False),
    Column("cpu_milli", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False, server_default="0"),
)
"""What pods hold now. Written with what is shown of their workload, so that both always agree."""

claims = Table(
    "claims",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("name", String(256), primary_key=True),
    Column("size", String(32), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("access_mode", String(8), nullable=False),
    Column("ephemeral", Boolean, nullable=False),
    Column("workload", String(64), nullable=False),
    Column("cluster", String(64), nullable=False),
    Column("phase", String(16), nullable=False),
    Column("storage_class", String(256), nullable=False, server_default=""),
)
"""Volume claims that were made. Of those from before they were written down the size is not known. `workload` is the
one they were created with, `cluster` the one that has their data (both empty: not known), `phase` Ready or Deleting.
Those of a deleted project whose name is used again have a `project` with a dot in it, which no project has."""

config_maps = Table(
    "config_maps",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("document", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
)
"""Config maps of projects; the document holds their contents by key."""

assets = Table(
    "assets",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("name", String(64), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("scope_id", String(64), nullable=False),
    Column("administrative", Boolean, nullable=False),
    Column("document", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    UniqueConstraint("kind", "scope", "scope_id", "name"),
)
"""What was prepared for submits, so far workload templates. `scope_id` is empty for the whole tenant."""

policies = Table(
    "policies",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("name", String(64), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("scope_id", String(64), nullable=False),
    Column("document", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("updated_by", String(256), nullable=False),
    Column("revision", BigInteger, nullable=False),
    UniqueConstraint("kind", "scope", "scope_id"),
)
"""Policies for workloads: at most one for each kind and scope. `kind` is that of the workloads."""

credentials = Table(
    "credentials",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kind", String(32), nullable=False, index=True),
    Column("name", String(64), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("scope_id", String(64), nullable=False),
    Column("cluster_wide", Boolean, nullable=False),
    Column("document", Text, nullable=False),
    Column("sealed", Text, nullable=False),
    Column("key_id", String(32), nullable=False),
    Column("owner", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    UniqueConstraint("name", "scope", "scope_id"),
)
"""`document` is what may be shown; `sealed` the values, encrypted with the key of `key_id` (`control/sealing.py`)."""

events = Table(
    "events",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("workload", String(64), nullable=False, index=True),
    Column("at", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    Column("decision", String(32)),
    Index(
        "ix_events_decisions",
        "at",
        "cluster",
        "number",
        sqlite_where=text("decision IS NOT NULL"),
        postgresql_where=text("decision IS NOT NULL"),
    ),
)
"""Lines of history. `decision` is the kind of decision of those that the feed of decisions shows."""

start_estimates = Table(
    "start_estimates",
    metadata,
    Column("workload", String(64), primary_key=True),
    Column("waiting_since", BigInteger, primary_key=True, autoincrement=False),
    Column("run", Integer, nullable=False),
    Column("made_at", BigInteger, nullable=False, index=True),
    Column("expected_at", BigInteger, nullable=False),
    Column("earliest_at", BigInteger),
    Column("latest_at", BigInteger),
    Column("basis", String(128), nullable=False),
    Column("started_at", BigInteger),
)
"""The first estimate of each wait that was given to a caller, and when the workload did start. A wait that ends without
a start ends its run as well: when a workload is resumed, another run begins."""

ended_waits = Table(
    "ended_waits",
    metadata,
    Column("workload", String(64), primary_key=True),
    Column("ended_at", BigInteger, primary_key=True, autoincrement=False, index=True),
    Column("began_at", BigInteger, nullable=False),
    Column("cause", String(64), nullable=False),
)
"""Waits that ended with a start. `cause` is what was last waited for; empty: it started in the first cycle."""

idempotency = Table(
    "idempotency",
    metadata,
    Column("caller", String(64), primary_key=True),
    Column("key", String(256), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("status", Integer, nullable=False),
    Column("answer", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False, index=True),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False, index=True),
    Column("subject", String(256), nullable=False),
    Column("subject_type", String(16), nullable=False),
    Column("source_ip", String(64), nullable=False),
    Column("action", String(32), nullable=False),
    Column("http_method", String(16), nullable=False),
    Column("url", String(2048), nullable=False),
    Column("entity_type", String(32), nullable=False),
    Column("entity_name", String(256), nullable=False),
    Column("entity_id", String(256), nullable=False),
    Column("result", String(16), nullable=False),
    Column("http_status", Integer, nullable=False, server_default="0"),
    Column("request_id", String(64), nullable=False, server_default=""),
    Column("problem", String(64), nullable=False, server_default=""),
    Column("changes", Text, nullable=False, server_default=""),
    Column("hash", String(64), nullable=False, server_default=""),
)
"""Numbered without gaps, under the lock of the transaction that writes. `changes` is JSON: rows before and after;
`problem` the code of a refusal; `hash` covers the entry and the one before (`control/audit_chain.py`)."""

audit_chain = Table(
    "audit_chain",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("last_id", BigInteger, nullable=False),
    Column("last_hash", String(64), nullable=False),
    Column("anchor_id", BigInteger, nullable=False),
    Column("anchor_hash", String(64), nullable=False),
)
"""One row: the last entry that was written, and the last one that is not there any more."""

audit_forwarding = Table(
    "audit_forwarding",
    metadata,
    Column("target", String(512), primary_key=True),
    Column("through", BigInteger, nullable=False),
    Column("holder", String(64), nullable=False),
    Column("held_until", BigInteger, nullable=False),
)
"""Where entries are forwarded to: the last one that arrived, and which server sends them at the moment."""

shared_keys = Table(
    "shared_keys",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
"""Which keys the processes of one database use."""

control_processes = Table(
    "control_processes",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("address", String(256), nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("token_key", String(64)),
)
"""The processes of one database that run now, where the others reach them, and the id of the key that they sign tokens
with."""

cluster_tunnels = Table(
    "cluster_tunnels",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("process", String(64), nullable=False),
)
"""Which process each cluster is connected to."""

leases = Table(
    "leases",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("until", BigInteger, nullable=False),
)
"""What one process does at a time, and which one may until when."""


subscriptions = Table(
    "subscriptions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("owner_name", String(256), nullable=False, index=True),
    Column("document", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
"""Which events of their own workloads users are notified of, and where."""

webhooks = Table(
    "webhooks",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("url", String(2048), nullable=False),
    Column("sealed", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
"""URLs of users that notifications are sent to; `sealed` is the secret that signs them."""

notifications = Table(
    "notifications",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("channel", String(128), nullable=False),
    Column("event", String(32), nullable=False),
    Column("workload", String(64), nullable=False),
    Column("workload_name", String(64), nullable=False),
    Column("project", String(64), nullable=False),
    Column("department", String(64), nullable=False),
    Column("cluster", String(64), nullable=False),
    Column("at", BigInteger, nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("sent_at", BigInteger),
    Column("problem", String(512), nullable=False),
    Index("ix_notifications_state_due_at", "state", "due_at"),
    Index("ix_notifications_owner_channel", "owner", "channel", "state"),
)
"""The outbox, written with the report that is worth a notification; what was sent stays as the log of deliveries."""

usage_spans = Table(
    "usage_spans",
    metadata,
    Column("pod", String(128), primary_key=True),
    Column("cluster", String(64), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("workload", String(64), nullable=False, index=True),
    Column("workload_name", String(64), nullable=False),
    Column("project", String(64), nullable=False),
    Column("project_number", BigInteger, nullable=False),
    Column("department", String(64), nullable=False),
    Column("department_number", BigInteger, nullable=False),
    Column("submitted_by", String(256), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("pool", String(64), nullable=False),
    Column("node", String(256), nullable=False),
    Column("gpu_type", String(128), nullable=False),
    Column("gpus_milli", BigInteger, nullable=False),
    Column("cpu_milli", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("bound_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("cause", String(32), nullable=False),
    Column("is_lost", Boolean, nullable=False),
    # What overlaps a period is found in the index alone.
    Index("ix_usage_spans_ended_at_created_at", "ended_at", "created_at"),
    # Of a cluster that reports everything, what it does not name is looked for.
    Index("ix_usage_spans_open", "cluster", "pod", sqlite_where=text("ended_at IS NULL")),
)
"""What pods asked for (from `created_at`) and held (from `bound_at`), to the millisecond; without `ended_at` they still
do. A pod that goes to another project or department with its workload has a row for each, its parts. The numbers tell
a project or department from an earlier one of the same name. `is_lost`: it ended because it was taken back, moved or
lost with its node."""

usage_subjects = Table(
    "usage_subjects",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("cluster", String(64), nullable=False),
    Column("project", String(64), nullable=False),
    Column("project_number", BigInteger, nullable=False),
    Column("department", String(64), nullable=False),
    Column("department_number", BigInteger, nullable=False),
    Column("submitted_by", String(256), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("pool", String(64), nullable=False),
    Column("gpu_type", String(128), nullable=False),
    UniqueConstraint(
        *("project", "project_number", "department", "department_number", "submitted_by", "kind"),
        *("pool", "gpu_type", "cluster"),
        name="uq_usage_subjects_all",
    ),
)
"""Whose usage an hour's sum is. What is over quota is counted for a project in a pool: its user, kind and GPU type are
empty."""


def _sums_of(unit: str) -> Table:
    """A table with the sums of whole hours or days, counted since the epoch."""
    amounts = ("requested", "allocated", "lost", "used", "measured", "over_quota", "cpu", "memory")
    return Table(
        f"usage_{unit}s",
        metadata,
        Column(unit, BigInteger, primary_key=True, autoincrement=False),
        Column("subject", Integer, primary_key=True, autoincrement=False),
        *(Column(name, BigInteger, nullable=False) for name in amounts),
    )


usage_hours = _sums_of("hour")
"""GPUs and cores in thousandths x milliseconds, memory in MiB x seconds. `used` and `measured`: GPU time in use, and
GPU time of which that was measured."""

usage_days = _sums_of("day")
"""The same of whole days in UTC: a year is summed from these."""

usage_progress = Table(
    "usage_progress",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("summed_until", BigInteger, nullable=False),
    Column("spans_from", BigInteger, nullable=False),
    Column("disturbed", BigInteger, nullable=False),
)
"""One row: hours before `summed_until` are in `usage_hours`; spans that ended before `spans_from` are deleted.
`disturbed` counts changes of the hour that is summed next: sums that were computed before one are not stored."""

quota_history = Table(
    "quota_history",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("project_number", BigInteger, primary_key=True, autoincrement=False),
    Column("pool", String(64), primary_key=True),
    Column("from_at", BigInteger, primary_key=True, autoincrement=False),
    Column("quota_milli", BigInteger, nullable=False),
)
"""GPU quotas of projects, from when each of them held; -1: unlimited."""

usage_prices = Table(
    "usage_prices",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("resource", String(16), nullable=False),
    Column("gpu_type", String(128), nullable=False),
    Column("from_at", BigInteger, nullable=False),
    Column("price_micro", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    UniqueConstraint("resource", "gpu_type", "from_at"),
)
"""Prices of an hour of a GPU, a core or a GiB of memory, in millionths, from a full hour on."""

usage_reports = Table(
    "usage_reports",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(256), nullable=False),
    Column("owner", String(64), nullable=False, index=True),
    Column("document", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("message", Text, nullable=False),
    Column("file", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
"""Consumption reports: what was asked for, and the CSV file once it is made."""


@compiles(CreateIndex, "postgresql")
def _create_partial_index(create: CreateIndex, compiler: Any, **options: Any) -> str:
    """With the condition that it has in SQLite. To name PostgreSQL in the tables would import its dialect at every
    start, which takes 2 MiB."""
    index = create.element
    index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
    return str(compiler.visit_create_index(create, **options))
