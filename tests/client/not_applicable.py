"""Operations of the original's client that mean nothing here, and why.

A key is an operation or a whole class. A reason is a fact about Fairpool, not a plan; an operation that works leaves
this table, which the test checks.
"""

from __future__ import annotations

BINARIES = "it downloads a program of the original; Fairpool's commands are installed with the package"
DATA_VOLUMES = "there are no data volumes; a volume claim can be used by every workload of its project"
INFERENCE = "there are no inference workloads yet"
INFERENCE_OF_SEVERAL = "there are no inference workloads of several pods that work together"
INSTALLATION = "it describes the Helm chart of the original's clusters; a cluster joins with `fairpool cluster`"
LOGO = "no page of Fairpool shows a logo"
STORAGE = "there is one storage class, folders on the disks of the nodes, and nothing of it to be configured"
VENDOR = "it runs a service from the vendor's catalogue"

NOT_APPLICABLE = {
    "AdministratorCommandLineInterfaceApi": BINARIES,
    "ResearcherCommandLineInterfaceApi": BINARIES,
    "ResearcherCommandLineInterfaceDeprecatedApi": BINARIES,
    "DatavolumesApi": DATA_VOLUMES,
    "DistributedInferencesApi": INFERENCE,
    "InferencesApi": INFERENCE,
    "RevisionsApi": INFERENCE,
    "EventsApi.get_revision_events": INFERENCE,
    "EventsApi.get_revision_history": INFERENCE,
    "PodsApi.get_revision_pods": INFERENCE,
    "NVIDIANIMApi": VENDOR,
    "NotificationChannelsApi.create_slack_app": "Slack is not supported; a webhook can post to it",
    "AIApplicationsApi": "it lists applications that the original finds in Kubernetes",
    "WorkloadsV2Api": "it submits Kubernetes manifests, and no engine here runs them",
    "ClustersApi.get_cluster_install_info_by_uuid": INSTALLATION,
    "ClustersApi.get_install_file": INSTALLATION,
    "LogoApi": LOGO,
    "StorageClassConfigurationApi": STORAGE,
    **{
        f"PolicyApi.{verb}_{kind}": why
        for verb in ("get", "overwrite", "update", "delete")
        for kind, why in (
            (f"distributed_inference_policy{'' if verb == 'delete' else '_v2'}", INFERENCE_OF_SEVERAL),
            ("nim_service_policy", VENDOR),
        )
    },
}


def reason(operation: str) -> str | None:
    """Why this operation means nothing here; None: it does."""
    return NOT_APPLICABLE.get(operation) or NOT_APPLICABLE.get(operation.partition(".")[0])
