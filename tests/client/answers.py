"""The model of the original's client that the answer of each operation must satisfy.

The client hands out answers as plain JSON, so which of its models belongs to which operation is stated here. `[X]` is a
bare list, `A & B` satisfies both; `anything` is for operations that promise no particular answer.
"""

from __future__ import annotations

from collections.abc import Iterator

POLICIES = {
    "workspace": "WorkspacePolicyV2",
    "training": "TrainingPolicyV2",
    "distributed": "DistributedPolicyV2",
    "inference": "InferencePolicyV2",
    "distributed_inference": "DistributedInferencePolicyV2",
}
CREDENTIALS = {
    "access_key": ("access_keys", "AccessKey"),
    "docker_registry": ("docker_registries", "DockerRegistry"),
    "generic_secret": ("generic_secret", "GenericSecret"),
    "ngc_api_key": ("ngc_api_key", "NgcApiKey"),
    "password": ("passwords", "Password"),
}
ASSETS = {
    "ComputeApi": ("compute", "ComputeAsset", "ComputeListResponse"),
    "ConfigMapApi": ("config_map", "ConfigMapAsset", "ConfigMapListResponse"),
    "EnvironmentApi": ("environment", "EnvironmentAsset", "EnvironmentListResponse"),
    "GitApi": ("git", "GitAsset", "GitListResponse"),
    "NFSApi": ("nfs", "NFSAsset", "NFSListResponse"),
    "PVCApi": ("pvc", "PVCAsset", "PVCListResponse"),
    "S3Api": ("s3", "S3Asset", "S3ListResponse"),
    "SecretApi": ("secret", "SecretAsset", "SecretAssetListResponse"),
}
TEMPLATES = {
    "workspace": "WorkspaceTemplate",
    "training": "TrainingTemplate",
    "distributed": "DistributedTemplate",
    "inference": "InferenceTemplate",
}
SUBMITTED = {
    "WorkspacesApi": ("workspace", "create_workspace1", "Workspace1"),
    "TrainingsApi": ("training", "create_training1", "Training1"),
    "DistributedApi": ("distributed", "create_distributed", "DistributedWorkload"),
}


def _assets() -> Iterator[tuple[str, str]]:
    for api, (noun, model, many) in ASSETS.items():
        yield f"{api}.create_{noun}_asset", model
        yield f"{api}.list_{noun}_assets", many
        yield f"{api}.get_{noun}_asset_by_id", model
        yield f"{api}.update_{noun}_asset_by_id", model
        yield f"{api}.delete_{noun}_asset_by_id", "anything"
    for noun, (many, model) in CREDENTIALS.items():
        yield f"CredentialsApi.create_{noun}", model
        yield f"CredentialsApi.list_{many}", f"{model}ListResponse"
        yield f"CredentialsApi.get_{noun}_by_id", model
        yield f"CredentialsApi.update_{noun}", model
        yield f"CredentialsApi.delete_{noun}", "anything"


def _policies() -> Iterator[tuple[str, str]]:
    for noun, model in POLICIES.items():
        yield f"PolicyApi.delete_{noun}_policy", "anything"
        for verb in ("get", "overwrite", "update"):
            yield f"PolicyApi.{verb}_{noun}_policy_v2", model
    for verb in ("get", "overwrite", "update", "delete"):
        yield f"PolicyApi.{verb}_nim_service_policy", "anything" if verb == "delete" else "NimServicePolicy"


def _templates() -> Iterator[tuple[str, str]]:
    for noun, model in TEMPLATES.items():
        yield f"WorkloadTemplatesApi.delete_{noun}_template", "anything"
        for verb in ("create", "get") if noun == "inference" else ("create", "get", "patch", "update"):
            yield f"WorkloadTemplatesApi.{verb}_{noun}_template", model
        yield f"WorkloadTemplatesApi.list_{noun}_templates", f"{model}sListResponse"


def _workloads() -> Iterator[tuple[str, str]]:
    for api, (noun, create, model) in SUBMITTED.items():
        yield f"{api}.{create}", model
        yield f"{api}.get_{noun}", model
        for verb in ("delete", "resume", "suspend"):
            yield f"{api}.{verb}_{noun}", "HttpResponse"


ANSWERS = {
    **dict(_assets()),
    **dict(_policies()),
    **dict(_templates()),
    **dict(_workloads()),
    "AIApplicationsApi.count_applications": "CountResponse",
    "AIApplicationsApi.get_application": "Application1",
    "AIApplicationsApi.list_applications": "ListApplications200Response",
    "AccessKeysApi.create_access_key1": "AccessKeyPostResponse",
    "AccessKeysApi.delete_access_key_by_id": "anything",
    "AccessKeysApi.delete_access_key_by_id_administration": "anything",
    "AccessKeysApi.get_access_key_by_id1": "AccessKey1",
    "AccessKeysApi.get_access_keys": "AccessKeys",
    "AccessKeysApi.get_access_keys_administration": "AccessKeysAdministration",
    "AccessKeysApi.regenerate_access_key_secret": "RegenerateAccessKeySecret200Response",
    "AccessRulesApi.access_rules_batch": "AccessRuleDeletionBatchResponse",
    "AccessRulesApi.access_rules_batch_create": "AccessRulesBatchCreateResponse",
    "AccessRulesApi.count_access_rules": "CountAccessRules200Response",
    "AccessRulesApi.create_access_rule": "AccessRule",
    "AccessRulesApi.delete_access_rule": "anything",
    "AccessRulesApi.get_access_rule": "AccessRuleById",
    "AccessRulesApi.get_access_rules": "GetAccessRules200Response",
    "ApplicationsApi.create_application": "ApplicationPostResponse",
    "ApplicationsApi.delete_application_by_id": "anything",
    "ApplicationsApi.get_application_by_id": "Application",
    "ApplicationsApi.get_applications": "[Application]",
    "ApplicationsApi.regenerate_application_secret": "RegenerateApplicationSecret200Response",
    "ApplicationsApi.update_application_by_id": "Application",
    "AuditLogsApi.download_audit_logs": "anything",
    "AuditLogsApi.get_audit_logs": "GetAuditLogs200Response",
    "ClustersApi.create_cluster": "DisplayedCluster",
    "ClustersApi.delete_cluster": "anything",
    "ClustersApi.get_cluster_by_uuid": "DisplayedCluster",
    "ClustersApi.get_cluster_install_info_by_uuid": "ClusterInstallationInfoResponse",
    "ClustersApi.get_cluster_metrics": "MetricsResponse",
    "ClustersApi.get_cluster_metrics_0": "Cluster",
    "ClustersApi.get_clusters": "[DisplayedCluster]",
    "ClustersApi.get_install_file": "anything",
    "ClustersApi.update_cluster": "anything",
    "CredentialsApi.list_credentials_assets": "CredentialsListResponse",
    "DatasourcesApi.list_datasource_assets": "DatasourceListResponse",
    "DatavolumesApi.get_datavolumes": "GetDatavolumes200Response",
    "DatavolumesApi.count_datavolumes": "CountResponse",
    "DepartmentsApi.count_departments": "CountResponse",
    "DepartmentsApi.create_department": "DepartmentForList",
    "DepartmentsApi.delete_department": "anything",
    "DepartmentsApi.get_department": "DepartmentForList",
    "DepartmentsApi.get_department_metrics": "MetricsResponse",
    "DepartmentsApi.get_department_metrics_0": "Department1",
    "DepartmentsApi.get_departments": "GetDepartments200Response",
    "DepartmentsApi.get_departments_0": "[DepartmentForGetV1 & Department2]",
    "DepartmentsApi.get_departments_metrics": "Departments",
    "DepartmentsApi.get_departments_telemetry": "TelemetryResponse",
    "DepartmentsApi.patch_department_resources": "anything",
    "DepartmentsApi.update_department": "DepartmentForList",
    "DepartmentsApi.update_department_admins": "anything",
    "DepartmentsApi.update_department_resources": "anything",
    "EventsApi.get_revision_events": "GetWorkloadEvents200Response",
    "EventsApi.get_revision_history": "GetWorkloadHistory200Response",
    "EventsApi.get_workload_events": "GetWorkloadEvents200Response",
    "EventsApi.get_workload_history": "GetWorkloadHistory200Response",
    "HostPathApi.create_host_path": "HostPathAsset",
    "HostPathApi.delete_host_path_by_id": "anything",
    "HostPathApi.get_host_path_by_id": "HostPathAsset",
    "HostPathApi.list_host_path_assets": "HostPathListResponse",
    "HostPathApi.update_host_path_by_id": "HostPathAsset",
    "IdpsApi.create_idp": "IdpPostResponse",
    "IdpsApi.delete_idp": "anything",
    "IdpsApi.get_idp": "Idp1",
    "IdpsApi.get_idp_mappers": "Mappers",
    "IdpsApi.get_idps": "[Idp1]",
    "IdpsApi.update_idp": "anything",
    "IdpsApi.update_idp_mappers": "anything",
    "InferencesApi.create_inference1": "Inference1",
    "InferencesApi.delete_inference": "HttpResponse",
    "InferencesApi.get_inference": "Inference1",
    "InferencesApi.get_inference_workload_metrics": "MetricsResponse",
    "InferencesApi.get_inference_workload_pod_metrics": "MetricsResponse",
    "InferencesApi.update_inference_spec": "Inference1",
    "LogoApi.get_tenant_logo": "GetTenantLogo200Response",
    "LogoApi.upload_tenant_logo": "anything",
    "MeApi.count_me_access_rules": "CountAccessRules200Response",
    "MeApi.get_me_access_rules": "MyAccessRules",
    "NetworkTopologiesApi.create_network_topology": "NetworkTopology",
    "NetworkTopologiesApi.delete_network_topology": "anything",
    "NetworkTopologiesApi.get_network_topologies": "GetNetworkTopologies200Response",
    "NetworkTopologiesApi.get_network_topologies_count": "CountResponse",
    "NetworkTopologiesApi.get_network_topology_by_id": "NetworkTopology",
    "NodePoolsApi.count_nodepools": "CountResponse",
    "NodePoolsApi.create_node_pool": "NodePool1",
    "NodePoolsApi.create_nodepool": "Nodepool",
    "NodePoolsApi.delete_node_pool": "anything",
    "NodePoolsApi.delete_nodepool": "anything",
    "NodePoolsApi.get_node_pools": "[NodePool1]",
    "NodePoolsApi.get_nodepool": "Nodepool",
    "NodePoolsApi.get_nodepool_metrics": "MetricsResponse",
    "NodePoolsApi.get_nodepools": "GetNodepools200Response",
    "NodePoolsApi.patch_nodepool": "Nodepool",
    "NodePoolsApi.update_node_pool": "NodePool1",
    "NodePoolsApi.update_node_pool_labels": "NodePool1",
    "NodePoolsApi.update_nodepool": "Nodepool",
    "NodesApi.count_nodes": "CountNodes200Response",
    "NodesApi.count_tenant_nodes": "CountNodes200Response",
    "NodesApi.get_node_metrics": "MetricsResponse",
    "NodesApi.get_node_telemetry": "TelemetryResponse",
    "NodesApi.get_nodes": "Nodes",
    "NodesApi.get_tenant_nodes": "Nodes",
    "NotificationChannelsApi.create_notification_channel_config": "NotificationChannelResponse",
    "NotificationChannelsApi.create_slack_app": "CreateSlackAppResponse",
    "NotificationChannelsApi.delete_notification_channel_config": "anything",
    "NotificationChannelsApi.get_notification_channel_config": "NotificationChannelResponse",
    "NotificationChannelsApi.get_notification_channels": "[NotificationChannelResponse]",
    "NotificationChannelsApi.patch_notification_channel_config": "NotificationChannelResponse",
    "NotificationChannelsApi.update_notification_channel_config": "NotificationChannelResponse",
    "NotificationChannelsApi.validate_notification_channel": "anything",
    "NotificationStateApi.get_notification_state": "NotificationState",
    "NotificationStateApi.update_notification_state": "NotificationState",
    "NotificationTypesApi.get_notification_types": "[NotificationType]",
    "OrgUnitApi.get_priorities": "GetPriorities200Response",
    "PVCApi.get_pvc_history": "PVCHistoryResponse",
    "PermissionsApi.get_permissions": "[Permission]",
    "PermissionsApi.get_permitted_scopes": "anything",
    "PodsApi.count_pods": "CountResponse",
    "PodsApi.get_revision_pods": "GetRevisionPods200Response",
    "PodsApi.get_workload_pod_metrics": "MetricsResponse",
    "PodsApi.get_workload_pods": "ListPods200Response",
    "PodsApi.list_pods": "ListPods200Response",
    "PolicyApi.list_policies": "PolicyListResponse",
    "ProjectsApi.count_projects": "CountResponse",
    "ProjectsApi.create_project": "Project",
    "ProjectsApi.create_project_0": "ProjectV1 & Project2",
    "ProjectsApi.delete_project": "anything",
    "ProjectsApi.delete_project_0": "ProjectV1 & Project2",
    "ProjectsApi.get_project": "Project",
    "ProjectsApi.get_project_0": "ProjectV1 & Project2",
    "ProjectsApi.get_project_metrics": "MetricsResponse",
    "ProjectsApi.get_project_metrics_0": "Project1",
    "ProjectsApi.get_projects": "Projects",
    "ProjectsApi.get_projects_0": "[ProjectV1 & Project2]",
    "ProjectsApi.get_projects_metrics": "models.Projects",
    "ProjectsApi.get_projects_telemetry": "TelemetryResponse",
    "ProjectsApi.patch_project_resources": "anything",
    "ProjectsApi.update_project": "Project",
    "ProjectsApi.update_project_0": "ProjectV1 & Project2",
    "ProjectsApi.update_project_resources": "anything",
    "RegistryApi.create_registry": "Registry",
    "RegistryApi.delete_registry": "anything",
    "RegistryApi.get_registry_by_id": "Registry",
    "RegistryApi.get_repositories": "Repositories",
    "RegistryApi.get_repository_tags": "RepositoryTags",
    "RegistryApi.list_registries": "RegistryListResponse",
    "RegistryApi.update_registry": "Registry",
    "ReportsApi.are_reports_available": "AreReportsAvailable200Response",
    "ReportsApi.count_reports": "CountResponse",
    "ReportsApi.create_report": "Report",
    "ReportsApi.delete_report_by_id": "anything",
    "ReportsApi.download_report_by_id": "anything",
    "ReportsApi.get_report_by_id": "Report",
    "ReportsApi.list_reports": "ListReports200Response",
    "RevisionsApi.count_inference_workload_revisions": "CountResponse",
    "RevisionsApi.get_inference_workload_revisions": "GetInferenceWorkloadRevisions200Response",
    "RevisionsApi.get_revision": "Revision",
    "RolesApi.get_role_v1": "RoleV1",
    "RolesApi.get_roles_v1": "[RoleV1]",
    "ServiceAccountsApi.create_service_account": "ServiceAccountPostResponse",
    "ServiceAccountsApi.delete_service_account_by_id": "anything",
    "ServiceAccountsApi.get_service_account_by_id": "ServiceAccount",
    "ServiceAccountsApi.get_service_accounts": "[ServiceAccount]",
    "ServiceAccountsApi.regenerate_service_account_secret": "RegenerateServiceAccountSecretResponse",
    "ServiceAccountsApi.update_service_account_by_id": "ServiceAccount",
    "SettingsApi.get_security_setting_by_key": "anything",
    "SettingsApi.get_security_settings": "SettingsGetResponse",
    "SettingsApi.update_security_setting_by_key": "anything",
    "StorageClassConfigurationApi.create_storage_class_configuration": "StorageClassConfiguration",
    "StorageClassConfigurationApi.delete_storage_class_configuration_by_id": "anything",
    "StorageClassConfigurationApi.get_storage_class_configuration_by_id": "StorageClassConfiguration",
    "StorageClassConfigurationApi.list_storage_class_configuration": "StorageClassConfigurationListResponse",
    "StorageClassConfigurationApi.patch_storage_class_configuration_by_id": "StorageClassConfiguration",
    "StorageClassConfigurationApi.update_storage_class_configuration_by_id": "StorageClassConfiguration",
    "StorageClassesApi.get_storage_classes": "StorageClasses1",
    "StorageClassesApi.get_storage_classes_v2": "StorageClassesV2",
    "StorageClassesApi.v1_get_storage_classes": "V1GetStorageClasses200Response",
    "SubscriptionsApi.create_subscription": "Subscription",
    "SubscriptionsApi.delete_subscription": "anything",
    "SubscriptionsApi.get_my_subscriptions": "[Subscription]",
    "SubscriptionsApi.update_subscription": "Subscription",
    "TemplateApi.create_template": "WorkloadTemplate",
    "TemplateApi.delete_template_by_id": "anything",
    "TemplateApi.get_template_by_id": "WorkloadTemplate",
    "TemplateApi.list_templates": "WorkloadTemplateListResponse",
    "TemplateApi.update_template": "WorkloadTemplate",
    "TenantApi.get_tenant_settings": "[Setting]",
    "TenantApi.get_tenant_settings_by_key": "anything",
    "TenantApi.update_tenant_setting": "TenantSettingCreationResponse",
    "TokensApi.app_token": "AppTokenResponse",
    "TokensApi.grant_token": "TokenResponse",
    "TokensApi.grant_token_v2": "OAuth2TokenResponse",
    "UserApplicationsApi.create_user_application": "UserAppPostResponse",
    "UserApplicationsApi.delete_user_application_by_id": "anything",
    "UserApplicationsApi.delete_user_application_by_id_administration": "anything",
    "UserApplicationsApi.get_user_application_by_id": "UserApp",
    "UserApplicationsApi.get_user_applications": "[UserApp]",
    "UserApplicationsApi.get_user_applications_administration": "[UserAppAdministration]",
    "UserApplicationsApi.regenerate_user_application_secret": "RegenerateApplicationSecret200Response",
    "UsersApi.change_user_password": "anything",
    "UsersApi.count_users": "CountResponse",
    "UsersApi.create_user": "UserPostResponse",
    "UsersApi.delete_user_by_id": "anything",
    "UsersApi.get_user_by_id": "User2",
    "UsersApi.get_users": "[User2]",
    "UsersApi.logout_user": "anything",
    "UsersApi.reset_user_password": "ResetUserPassword200Response",
    "WorkloadPropertiesApi.create_workload_type": "WorkloadTypeConfig",
    "WorkloadPropertiesApi.delete_workload_type": "anything",
    "WorkloadPropertiesApi.get_category_by_id": "WorkloadCategory",
    "WorkloadPropertiesApi.get_workload_priorities": "GetWorkloadPriorities200Response",
    "WorkloadPropertiesApi.get_workload_type": "WorkloadTypeConfig",
    "WorkloadPropertiesApi.list_categories": "ListCategories200Response",
    "WorkloadPropertiesApi.list_workload_types": "ListWorkloadTypes200Response",
    "WorkloadPropertiesApi.update_workload_type": "WorkloadTypeConfig",
    "WorkloadTemplatesApi.count_templates": "CountResponse",
    "WorkloadTemplatesApi.get_template_by_id1": "SupersetTemplate",
    "WorkloadTemplatesApi.list_templates1": "TemplatesListResponse",
    "WorkloadTemplatesApi.template_name_availability": "anything",
    "WorkloadsApi.count_workloads": "CountResponse",
    "WorkloadsApi.get_workload": "Workload & WorkloadDetailed",
    "WorkloadsApi.get_workload_metrics": "MetricsResponse",
    "WorkloadsApi.get_workloads": "GetWorkloads200Response",
    "WorkloadsApi.get_workloads_telemetry": "TelemetryResponse",
    "WorkloadsBatchApi.batch_workloads": "BatchResponse",
    "WorkloadsV2Api.create_workload_v2": "WorkloadV2",
    "WorkloadsV2Api.delete_workload_v2": "anything",
    "WorkloadsV2Api.get_workload_v2_by_id": "WorkloadV2GetResponse",
    "WorkloadsV2Api.update_workload_v2": "WorkloadV2",
}
