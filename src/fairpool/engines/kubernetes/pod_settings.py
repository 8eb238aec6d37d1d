"""Settings of a cluster that decide what its pods may have. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.model.container_rules import Privilege

GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """What an administrator has allowed to pods, and names that differ between clusters."""

    privileges: frozenset[Privilege] = frozenset()
    host_paths: tuple[str, ...] = ()
    """Directories of nodes that pods may mount, with everything below them; empty: none."""
    gpu_resource: str = GPU_RESOURCE
    runtime_class: str = ""
    """Of pods with a part of a GPU, which no device plugin gives to their containers; empty: the default one."""
    reservation_image: str = ""
    """Of pods that hold a GPU for others which share it: anything with a shell. Empty: there are no parts of GPUs."""
    share_library: str = ""
    """Where nodes have the library that keeps pods within their part of a GPU; empty: they do not have it."""
    unenforced_shares: bool = False
    """Pods may have parts of GPUs although nothing keeps them within these."""
    images: tuple[tuple[str, str], ...] = ()
    """Images by the names that people use for them: a pattern for the name as it is written, and the image."""
    support_image: str = ""
    """Fairpool's own image, for what happens in a pod before its program starts, and for the sample training. Empty:
    there is neither."""
    git_image: str = ""
    """An image with Git and a shell; empty: the support image."""

    @property
    def clones_with(self) -> str:
        """The image that repositories are cloned with; empty: none are."""
        return self.git_image or self.support_image
