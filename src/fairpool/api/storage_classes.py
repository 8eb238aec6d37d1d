"""Storage classes of volume claims, in the three forms that clients of the original know."""

from __future__ import annotations

from pydantic import Field

from fairpool.api.wire import Answer


class AccessModes(Answer):
    """Who may mount a claim at the same time."""

    read_write_once: bool = True
    read_only_many: bool = True
    read_write_many: bool = True


class DefaultAccessModes(Answer):
    """The mode of a claim that asks for none."""

    read_write_once: bool = True
    read_only_many: bool = False
    read_write_many: bool = False


class AccessModeChoice(Answer):
    """The modes of a class."""

    default: DefaultAccessModes = Field(default_factory=DefaultAccessModes)
    supported_values: AccessModes = Field(default_factory=AccessModes)


class VolumeModes(Answer):
    """How claims can be mounted."""

    filesystem: bool = True
    block: bool = False


class VolumeModeChoice(Answer):
    """The volume modes of a class."""

    default: str = "Filesystem"
    supported_values: VolumeModes = Field(default_factory=VolumeModes)


class StorageCustomization(Answer):
    """What a claim of a class may ask for."""

    access_mode: AccessModeChoice = Field(default_factory=AccessModeChoice)
    volume_mode: VolumeModeChoice = Field(default_factory=VolumeModeChoice)


class StoragePermissions(Answer):
    """What a class may be used for."""

    allowed_for_assets: bool = True
    allowed_for_workloads: bool = True
    allowed_for_ephemeral_volumes: bool = True
    allowed_for_persistent_volumes: bool = True
    allow_data_sharing: bool = False


class StorageClassSpec(Answer):
    """About a class."""

    provisioner: str
    allow_volume_expansion: bool = False
    is_default: bool = True


class StorageClass(Answer):
    """A storage class."""

    cluster_id: str
    storage_class_name: str
    spec: StorageClassSpec
    permissions: StoragePermissions = Field(default_factory=StoragePermissions)
    customization: StorageCustomization = Field(default_factory=StorageCustomization)


class StorageClasses(Answer):
    """Storage classes of all clusters."""

    items: list[StorageClass]


class OlderClassSpec(Answer):
    """About a class, in older words."""

    provisioner: str
    allow_volume_expansion: bool = Field(default=False, alias="allow_volume_expansion")
    is_default: bool = Field(default=True, alias="is_default")


class OlderClass(Answer):
    """A storage class, in older words."""

    cluster_id: str = Field(alias="cluster_id")
    storage_class_name: str = Field(alias="storage_class_name")
    spec: OlderClassSpec = Field(serialization_alias="Spec")


class OlderClasses(Answer):
    """Storage classes of all clusters, in older words."""

    items: list[OlderClass]


class ClassNames(Answer):
    """The names of the storage classes of a cluster."""

    storage_classes: list[str]
