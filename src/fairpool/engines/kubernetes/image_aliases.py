"""What the name of an image means in a cluster: an administrator's table, and the sample training. Pure.

Names such as `python` are those of the default registry everywhere; where it cannot be reached, or another image is
meant, the table says which. The sample training of the documents is part of Fairpool's own image.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from fairpool.engines.kubernetes.pod_settings import PodSettings

QUICKSTART = "run-ai-demo/quickstart"
"""Without a registry: with one it is an image of that registry."""
TRAINER = ("python3", "-m", "fairpool.agent.pod.trainer")


class MeantImage(NamedTuple):
    """An image that a container runtime can pull."""

    reference: str
    entrypoint: tuple[str, ...] = ()
    """What starts where a workload names no command; empty: the image's own."""


def meant_image(name: str, settings: PodSettings) -> MeantImage:
    """The image that this name means: the first of the table that fits, else what it says."""
    for pattern, reference in settings.images:
        if fnmatchcase(name, pattern):
            return MeantImage(reference)
    if name == QUICKSTART and settings.support_image:
        return MeantImage(settings.support_image, TRAINER)
    return MeantImage(name)
