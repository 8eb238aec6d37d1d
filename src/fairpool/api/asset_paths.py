"""Paths of assets in the API, by kind. No libraries: commands read them before anything else is loaded."""

from __future__ import annotations

from collections.abc import Mapping

ASSETS = "/api/v1/asset"
DATASOURCES = f"{ASSETS}/datasource"
REGISTRIES = f"{ASSETS}/registries"
ASSET_PATHS: Mapping[str, str] = {
    "workload-template": f"{ASSETS}/workload-template",
    "environment": f"{ASSETS}/environment",
    "compute": f"{ASSETS}/compute",
    "pvc": f"{DATASOURCES}/pvc",
    "nfs": f"{DATASOURCES}/nfs",
    "git": f"{DATASOURCES}/git",
    "s3": f"{DATASOURCES}/s3",
    "hostPath": f"{DATASOURCES}/host-path",
    "config-map": f"{DATASOURCES}/config-map",
    "secret-volume": f"{DATASOURCES}/secrets",
}
DATASOURCE_STORAGE: Mapping[str, str] = {
    "pvc": "pvc",
    "nfs": "nfs",
    "git": "git",
    "s3": "s3",
    "hostPath": "hostPath",
    "config-map": "configMapVolume",
    "secret-volume": "secretVolume",
}
"""Where the storage of a workload has a data source of each kind."""
