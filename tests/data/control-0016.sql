BEGIN TRANSACTION;
CREATE TABLE access_rules (
	id VARCHAR(64) NOT NULL, 
	subject_id VARCHAR(256) NOT NULL, 
	subject_type VARCHAR(16) NOT NULL, 
	role VARCHAR(32) NOT NULL, 
	scope_type VARCHAR(16) NOT NULL, 
	scope_id VARCHAR(64) NOT NULL, 
	created_at BIGINT NOT NULL, 
	created_by VARCHAR(256) NOT NULL, 
	CONSTRAINT pk_access_rules PRIMARY KEY (id)
);
INSERT INTO "access_rules" VALUES('5bdcd24e-d7c1-4e26-9b47-79df004317fc','47698825-3194-4b50-b6a1-3e835b7194eb','user','administrator','tenant','',1800000000000,'');
INSERT INTO "access_rules" VALUES('2eed14b4-2968-4841-a77f-e5df7ff69f1c','aba5a118-5822-4ef4-ae16-2fa0463b8f7e','user','researcher','project','team-a',1800000000000,'test@run.ai');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0016');
CREATE TABLE applications (
	id VARCHAR(64) NOT NULL, 
	name VARCHAR(256) NOT NULL, 
	secret_hash VARCHAR(64) NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_applications PRIMARY KEY (id), 
	CONSTRAINT uq_applications_name UNIQUE (name)
);
INSERT INTO "applications" VALUES('ae7ec211-be56-4978-a472-bcadcec6d09c','robot','32f1116e23be8162fcb50c1b966b327983954acb5956c8d708072ba5e2d10630',1800000000000);
CREATE TABLE assets (
	id VARCHAR(64) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	scope VARCHAR(16) NOT NULL, 
	scope_id VARCHAR(64) NOT NULL, 
	administrative BOOLEAN NOT NULL, 
	document TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	created_by VARCHAR(256) NOT NULL, 
	updated_at BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_assets PRIMARY KEY (id), 
	CONSTRAINT uq_assets_kind_scope_scope_id_name UNIQUE (kind, scope, scope_id, name)
);
CREATE TABLE audit (
	id INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	subject VARCHAR(256) NOT NULL, 
	subject_type VARCHAR(16) NOT NULL, 
	source_ip VARCHAR(64) NOT NULL, 
	action VARCHAR(32) NOT NULL, 
	http_method VARCHAR(16) NOT NULL, 
	url VARCHAR(2048) NOT NULL, 
	entity_type VARCHAR(32) NOT NULL, 
	entity_name VARCHAR(256) NOT NULL, 
	entity_id VARCHAR(256) NOT NULL, 
	result VARCHAR(16) NOT NULL, 
	CONSTRAINT pk_audit PRIMARY KEY (id)
);
INSERT INTO "audit" VALUES(1,1800000000000,'test@run.ai','User','testclient','sign-in','POST','/api/v1/token','user','test@run.ai','47698825-3194-4b50-b6a1-3e835b7194eb','Succeeded');
INSERT INTO "audit" VALUES(2,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/org-unit/projects','project','team-a','team-a','Succeeded');
INSERT INTO "audit" VALUES(3,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/org-unit/projects','project','team-b','team-b','Succeeded');
INSERT INTO "audit" VALUES(4,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/users','user','ann@example.com','aba5a118-5822-4ef4-ae16-2fa0463b8f7e','Succeeded');
INSERT INTO "audit" VALUES(5,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/authorization/access-rules','access-rule','aba5a118-5822-4ef4-ae16-2fa0463b8f7e has the role researcher in team-a','2eed14b4-2968-4841-a77f-e5df7ff69f1c','Succeeded');
INSERT INTO "audit" VALUES(6,1800000000000,'ann@example.com','User','testclient','sign-in','POST','/api/v1/token','user','ann@example.com','aba5a118-5822-4ef4-ae16-2fa0463b8f7e','Succeeded');
INSERT INTO "audit" VALUES(7,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-a/first','01a3185c-5000-73cd-b60a-3625b061db1d','Succeeded');
INSERT INTO "audit" VALUES(8,1800000000000,'ann@example.com','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-a/second','01a3185c-5000-75c4-a2ea-792328363e1f','Succeeded');
INSERT INTO "audit" VALUES(9,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-b/waiting','01a3185c-5000-7614-9bf3-6e794df04b35','Succeeded');
INSERT INTO "audit" VALUES(10,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/apps','application','robot','ae7ec211-be56-4978-a472-bcadcec6d09c','Succeeded');
INSERT INTO "audit" VALUES(11,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/network-topologies','network-topology','t','t','Succeeded');
CREATE TABLE changes (
	revision BIGINT NOT NULL, 
	noun VARCHAR(32) NOT NULL, 
	id VARCHAR(128) NOT NULL, 
	project VARCHAR(64), 
	verb VARCHAR(32) NOT NULL, 
	declared BOOLEAN NOT NULL, 
	at BIGINT NOT NULL, 
	CONSTRAINT pk_changes PRIMARY KEY (revision)
);
INSERT INTO "changes" VALUES(2,'department','default',NULL,'created',1,1800000000000);
INSERT INTO "changes" VALUES(3,'node-pool','default',NULL,'created',1,1800000000000);
INSERT INTO "changes" VALUES(4,'cluster','27897732-7ed4-4e94-b90b-447025c42eb9',NULL,'created',0,1800000000000);
INSERT INTO "changes" VALUES(5,'project','team-a','team-a','created',1,1800000000000);
INSERT INTO "changes" VALUES(6,'project','team-b','team-b','created',1,1800000000000);
INSERT INTO "changes" VALUES(7,'workload','01a3185c-5000-73cd-b60a-3625b061db1d','team-a','created',1,1800000000000);
INSERT INTO "changes" VALUES(8,'workload','01a3185c-5000-75c4-a2ea-792328363e1f','team-a','created',1,1800000000000);
INSERT INTO "changes" VALUES(9,'workload','01a3185c-5000-7614-9bf3-6e794df04b35','team-b','created',1,1800000000000);
INSERT INTO "changes" VALUES(10,'topology','t',NULL,'created',1,1800000000000);
INSERT INTO "changes" VALUES(11,'workload','01a3185c-5000-73cd-b60a-3625b061db1d','team-a','observed',0,1800000000000);
INSERT INTO "changes" VALUES(12,'node','n1',NULL,'observed',0,1800000000000);
CREATE TABLE claims (
	project VARCHAR(64) NOT NULL, 
	name VARCHAR(256) NOT NULL, 
	size VARCHAR(32) NOT NULL, 
	created_at BIGINT NOT NULL, 
	created_by VARCHAR(256) NOT NULL, access_mode VARCHAR(8) DEFAULT 'rwm' NOT NULL, ephemeral BOOLEAN DEFAULT 0 NOT NULL, workload VARCHAR(64) DEFAULT '' NOT NULL, cluster VARCHAR(64) DEFAULT '' NOT NULL, phase VARCHAR(16) DEFAULT 'Ready' NOT NULL, 
	CONSTRAINT pk_claims PRIMARY KEY (project, name)
);
CREATE TABLE clusters (
	id VARCHAR(64) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	domain VARCHAR(256) NOT NULL, 
	version VARCHAR(256) NOT NULL, 
	created_at BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	report_token BIGINT, 
	report_number BIGINT NOT NULL, 
	events_through BIGINT NOT NULL, 
	needs_resync BOOLEAN NOT NULL, 
	last_seen_at BIGINT, nodes_version BIGINT DEFAULT '0' NOT NULL, installation VARCHAR(64), 
	CONSTRAINT pk_clusters PRIMARY KEY (id), 
	CONSTRAINT uq_clusters_name UNIQUE (name)
);
INSERT INTO "clusters" VALUES('27897732-7ed4-4e94-b90b-447025c42eb9','local','','',1800000000000,4,1,1,0,0,1800000000000,1,NULL);
CREATE TABLE config_maps (
	project VARCHAR(64) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	created_by VARCHAR(256) NOT NULL, 
	updated_at BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_config_maps PRIMARY KEY (project, name)
);
CREATE TABLE credentials (
	id VARCHAR(64) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	scope VARCHAR(16) NOT NULL, 
	scope_id VARCHAR(64) NOT NULL, 
	cluster_wide BOOLEAN NOT NULL, 
	document TEXT NOT NULL, 
	sealed TEXT NOT NULL, 
	key_id VARCHAR(32) NOT NULL, 
	owner VARCHAR(64) NOT NULL, 
	created_at BIGINT NOT NULL, 
	created_by VARCHAR(256) NOT NULL, 
	updated_at BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_credentials PRIMARY KEY (id), 
	CONSTRAINT uq_credentials_name_scope_scope_id UNIQUE (name, scope, scope_id)
);
CREATE TABLE departments (
	name VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_departments PRIMARY KEY (name)
);
INSERT INTO "departments" VALUES('default','{"name":"default","clusterId":null,"description":"","resources":[{"nodePool":{"id":"default","name":null},"priority":null,"preemptMinRuntimeSeconds":null,"reclaimMinRuntimeSeconds":null,"gpu":{"limit":null,"overQuota":null,"overQuotaWeight":null,"deserved":null},"cpu":{"limit":null,"overQuotaWeight":null,"deserved":null},"memory":{"limit":null,"overQuotaWeight":null,"units":"Mib","deserved":null}}]}',1800000000000,1800000000000,2);
CREATE TABLE events (
	cluster VARCHAR(64) NOT NULL, 
	number BIGINT NOT NULL, 
	workload VARCHAR(64) NOT NULL, 
	at BIGINT NOT NULL, 
	document TEXT NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (cluster, number)
);
CREATE TABLE holdings (
	pod VARCHAR(128) NOT NULL, 
	workload VARCHAR(64) NOT NULL, 
	cluster VARCHAR(64) NOT NULL, 
	node VARCHAR(256) NOT NULL, 
	devices TEXT NOT NULL, 
	gpus_milli BIGINT NOT NULL, 
	cpu_milli BIGINT NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	CONSTRAINT pk_holdings PRIMARY KEY (pod)
);
INSERT INTO "holdings" VALUES('01a3185c-5000-73cd-b60a-3625b061db1d-0-0','01a3185c-5000-73cd-b60a-3625b061db1d','27897732-7ed4-4e94-b90b-447025c42eb9','n1','[]',0,0,0);
CREATE TABLE idempotency (
	caller VARCHAR(64) NOT NULL, 
	"key" VARCHAR(256) NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	status INTEGER NOT NULL, 
	answer TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_idempotency PRIMARY KEY (caller, "key")
);
CREATE TABLE "node_overrides" (
	cluster VARCHAR(64) NOT NULL, 
	node VARCHAR(256) NOT NULL, 
	document TEXT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_node_marks PRIMARY KEY (cluster, node)
);
CREATE TABLE node_pools (
	name VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_node_pools PRIMARY KEY (name)
);
INSERT INTO "node_pools" VALUES('default','{"name":"default","labelKey":"-","labelValue":"-","clusterId":null,"placementStrategy":{"gpu":"binpack","cpu":"binpack"}}',1800000000000,1800000000000,3);
CREATE TABLE nodes (
	cluster VARCHAR(64) NOT NULL, 
	name VARCHAR(256) NOT NULL, 
	document TEXT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_nodes PRIMARY KEY (cluster, name)
);
INSERT INTO "nodes" VALUES('27897732-7ed4-4e94-b90b-447025c42eb9','n1','{"name":"n1","pool":"default","ready":true,"cordoned":false,"silent_since":null,"gpus":8,"cpu_milli":0,"memory_bytes":0,"gpu_memory_mib":0,"gpus_withheld":[],"message":"","labels":{},"images":null,"taints":[],"mig_strategy":null,"counted":null,"privileges":null}',12);
CREATE TABLE pods (
	id VARCHAR(128) NOT NULL, 
	workload VARCHAR(64) NOT NULL, 
	pod_index INTEGER NOT NULL, 
	incarnation INTEGER NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	document TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	since BIGINT NOT NULL, 
	CONSTRAINT pk_pods PRIMARY KEY (id)
);
INSERT INTO "pods" VALUES('01a3185c-5000-73cd-b60a-3625b061db1d-0-0','01a3185c-5000-73cd-b60a-3625b061db1d',0,0,'running','{"id":"01a3185c-5000-73cd-b60a-3625b061db1d-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000000000,"outcome":null,"cause":null,"detail":"","exit_code":null,"start_failure":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}',1800000000000,1800000000000);
CREATE TABLE preferences (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	updated_by VARCHAR(256) NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_preferences PRIMARY KEY ("key")
);
CREATE TABLE projects (
	name VARCHAR(64) NOT NULL, 
	department VARCHAR(64) NOT NULL, 
	cluster VARCHAR(64) NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	document TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	created_by VARCHAR(256) NOT NULL, 
	updated_at BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_projects PRIMARY KEY (name)
);
INSERT INTO "projects" VALUES('team-a','default','27897732-7ed4-4e94-b90b-447025c42eb9','Ready','{"name":"team-a","clusterId":null,"parentId":"default","requestedNamespace":null,"enforceRunaiScheduler":true,"description":"","defaultNodePools":[],"nodeTypes":{"training":[],"workspace":[]},"schedulingRules":{"interactiveJobTimeLimitSeconds":null,"interactiveJobMaxIdleDurationSeconds":null,"interactiveJobPreemptIdleDurationSeconds":null,"trainingJobMaxIdleDurationSeconds":null,"trainingJobTimeLimitSeconds":null},"resources":[{"nodePool":{"id":"default","name":null},"priority":null,"preemptMinRuntimeSeconds":null,"reclaimMinRuntimeSeconds":null,"gpu":{"limit":null,"overQuota":null,"overQuotaWeight":null,"deserved":4},"cpu":{"limit":null,"overQuotaWeight":null,"deserved":-1},"memory":{"limit":null,"overQuotaWeight":null,"units":"Mib","deserved":-1}}]}',1800000000000,'test@run.ai',1800000000000,5);
INSERT INTO "projects" VALUES('team-b','default','27897732-7ed4-4e94-b90b-447025c42eb9','Ready','{"name":"team-b","clusterId":null,"parentId":"default","requestedNamespace":null,"enforceRunaiScheduler":true,"description":"","defaultNodePools":[],"nodeTypes":{"training":[],"workspace":[]},"schedulingRules":{"interactiveJobTimeLimitSeconds":null,"interactiveJobMaxIdleDurationSeconds":null,"interactiveJobPreemptIdleDurationSeconds":null,"trainingJobMaxIdleDurationSeconds":null,"trainingJobTimeLimitSeconds":null},"resources":[{"nodePool":{"id":"default","name":null},"priority":null,"preemptMinRuntimeSeconds":null,"reclaimMinRuntimeSeconds":null,"gpu":{"limit":null,"overQuota":null,"overQuotaWeight":null,"deserved":2},"cpu":{"limit":null,"overQuotaWeight":null,"deserved":-1},"memory":{"limit":null,"overQuotaWeight":null,"units":"Mib","deserved":-1}}]}',1800000000000,'test@run.ai',1800000000000,6);
CREATE TABLE queue_reports (
	cluster VARCHAR(64) NOT NULL, 
	pool VARCHAR(64) NOT NULL, 
	queue VARCHAR(128) NOT NULL, 
	document TEXT NOT NULL, 
	CONSTRAINT pk_queue_reports PRIMARY KEY (cluster, pool, queue)
);
CREATE TABLE revision (
	id INTEGER NOT NULL, 
	value BIGINT NOT NULL, 
	declared BIGINT NOT NULL, 
	oldest BIGINT NOT NULL, organization BIGINT DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_revision PRIMARY KEY (id)
);
INSERT INTO "revision" VALUES(1,12,10,0,10);
CREATE TABLE tokens (
	hash VARCHAR(64) NOT NULL, 
	family VARCHAR(64) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	subject_id VARCHAR(64) NOT NULL, 
	subject_type VARCHAR(16) NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	CONSTRAINT pk_tokens PRIMARY KEY (hash)
);
INSERT INTO "tokens" VALUES('26c606e59d446de1433a85a89751749c55a7704bda98cf2efcbac3593dc8b1db','cf8c67c9-d27f-4371-97a0-daad621e13bd','access','47698825-3194-4b50-b6a1-3e835b7194eb','user',1800000000000,1800036000000);
INSERT INTO "tokens" VALUES('bbdb1ea3df2cbba96629cdab3d8afab08f33f42d69e5e9a84df1faf8d0a35020','cf8c67c9-d27f-4371-97a0-daad621e13bd','refresh','47698825-3194-4b50-b6a1-3e835b7194eb','user',1800000000000,1802592000000);
INSERT INTO "tokens" VALUES('ba5e93cf5c439c801b70791edb1289b0e28facb0d567278af1af788db3763583','27897732-7ed4-4e94-b90b-447025c42eb9','cluster','27897732-7ed4-4e94-b90b-447025c42eb9','cluster',1800000000000,NULL);
INSERT INTO "tokens" VALUES('f55f014a6fae52f0f905754513f9e490b4716793c0f70b1ae4a41c2971e9bac3','f23b9a12-58b6-4f1e-929b-0b6232beeac0','access','aba5a118-5822-4ef4-ae16-2fa0463b8f7e','user',1800000000000,1800036000000);
INSERT INTO "tokens" VALUES('96ddf71a80839599f0efc02a2201c7e532e97de74d176a4c3a67d7f84e2c8ad9','f23b9a12-58b6-4f1e-929b-0b6232beeac0','refresh','aba5a118-5822-4ef4-ae16-2fa0463b8f7e','user',1800000000000,1802592000000);
CREATE TABLE topologies (
	name VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_topologies PRIMARY KEY (name)
);
INSERT INTO "topologies" VALUES('t','{"name":"t","levels":["rack"]}',1800000000000,1800000000000,10);
CREATE TABLE users (
	id VARCHAR(64) NOT NULL, 
	email VARCHAR(256) NOT NULL, 
	password_hash TEXT NOT NULL, 
	must_change BOOLEAN NOT NULL, 
	first_password BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_users PRIMARY KEY (id), 
	CONSTRAINT uq_users_email UNIQUE (email)
);
INSERT INTO "users" VALUES('47698825-3194-4b50-b6a1-3e835b7194eb','test@run.ai','$argon2id$v=19$m=8,t=1,p=1$vtX0yCoBQiNEhj30LdjTiA$W1tkKBYcP6f9qm74ffi4lI6ogtpvB0KVZ6CjUvTnVV0',0,0,1800000000000);
INSERT INTO "users" VALUES('aba5a118-5822-4ef4-ae16-2fa0463b8f7e','ann@example.com','$argon2id$v=19$m=8,t=1,p=1$CupzTJy3QYPnlmmXo3XNKg$V7y4Pdse8UudHltomj5Mh7Naq/boPN+fJIjlOfPgYqI',0,0,1800000000000);
CREATE TABLE workload_labels (
	workload VARCHAR(64) NOT NULL, 
	"key" VARCHAR(320) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_workload_labels PRIMARY KEY (workload, "key")
);
CREATE TABLE workloads (
	id VARCHAR(64) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	name_key VARCHAR(128), 
	project VARCHAR(64) NOT NULL, 
	department VARCHAR(64) NOT NULL, 
	cluster VARCHAR(64) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	submitted_by VARCHAR(256) NOT NULL, 
	created_at BIGINT NOT NULL, 
	requested_gpus_milli BIGINT NOT NULL, 
	desired_state VARCHAR(16) NOT NULL, 
	run INTEGER NOT NULL, 
	declaration TEXT NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	report TEXT, 
	allocated_gpus_milli BIGINT NOT NULL, 
	running_pods INTEGER NOT NULL, 
	started_at BIGINT, 
	completed_at BIGINT, 
	deleted_at BIGINT, 
	revision BIGINT NOT NULL, report_revision BIGINT DEFAULT '0' NOT NULL, status VARCHAR(64) DEFAULT '' NOT NULL, urls TEXT, 
	CONSTRAINT pk_workloads PRIMARY KEY (id), 
	CONSTRAINT uq_workloads_name_key UNIQUE (name_key)
);
INSERT INTO "workloads" VALUES('01a3185c-5000-73cd-b60a-3625b061db1d','first','team-a/first','team-a','default','27897732-7ed4-4e94-b90b-447025c42eb9','Training','test@run.ai',1800000000000,1000,'run',0,'{"workload":{"id":"01a3185c-5000-73cd-b60a-3625b061db1d","name":"first","project":"team-a","created_at":1800000000000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true,"preferences":[]},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null,"host_roots":["/"],"ports":[],"pull_policy":null,"security":{"uid":null,"gid":null,"groups":[],"image_user":false,"capabilities":[],"host_network":false,"host_ipc":false},"secrets":[],"image_credential":""}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"desired_state":"run","run":0,"after":[],"array":null,"distributed":null},"request":{"image":"quickstart","compute":{"gpu":"1"}},"command_line":"","source":"Other","labels":{},"framework":null,"addresses":[],"external_ports":[],"origins":[],"changed_fields":[],"suspensions":[]}','Running','{"id":"01a3185c-5000-73cd-b60a-3625b061db1d","run":0,"phase":"Running","reason":null,"detail":"","pool":"default","gpus_milli":1000,"cpu_milli":0,"memory_bytes":0,"pods":[{"id":"01a3185c-5000-73cd-b60a-3625b061db1d-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000000000,"outcome":null,"cause":null,"detail":"","exit_code":null,"start_failure":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}],"since":1800000000000,"failures":0,"next_try_at":null,"waiting_since":null}',1000,1,1800000000000,NULL,NULL,7,11,'Running',NULL);
INSERT INTO "workloads" VALUES('01a3185c-5000-75c4-a2ea-792328363e1f','second','team-a/second','team-a','default','27897732-7ed4-4e94-b90b-447025c42eb9','Training','ann@example.com',1800000000000,1000,'run',0,'{"workload":{"id":"01a3185c-5000-75c4-a2ea-792328363e1f","name":"second","project":"team-a","created_at":1800000000000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true,"preferences":[]},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null,"host_roots":["/"],"ports":[],"pull_policy":null,"security":{"uid":null,"gid":null,"groups":[],"image_user":false,"capabilities":[],"host_network":false,"host_ipc":false},"secrets":[],"image_credential":""}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"desired_state":"run","run":0,"after":[],"array":null,"distributed":null},"request":{"image":"quickstart","compute":{"gpu":"1"}},"command_line":"","source":"Other","labels":{},"framework":null,"addresses":[],"external_ports":[],"origins":[],"changed_fields":[],"suspensions":[]}','Creating',NULL,0,0,NULL,NULL,NULL,8,0,'Pending',NULL);
INSERT INTO "workloads" VALUES('01a3185c-5000-7614-9bf3-6e794df04b35','waiting','team-b/waiting','team-b','default','27897732-7ed4-4e94-b90b-447025c42eb9','Training','test@run.ai',1800000000000,1000,'run',0,'{"workload":{"id":"01a3185c-5000-7614-9bf3-6e794df04b35","name":"waiting","project":"team-b","created_at":1800000000000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true,"preferences":[]},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null,"host_roots":["/"],"ports":[],"pull_policy":null,"security":{"uid":null,"gid":null,"groups":[],"image_user":false,"capabilities":[],"host_network":false,"host_ipc":false},"secrets":[],"image_credential":""}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"desired_state":"run","run":0,"after":[],"array":null,"distributed":null},"request":{"image":"quickstart","compute":{"gpu":"1"}},"command_line":"","source":"Other","labels":{},"framework":null,"addresses":[],"external_ports":[],"origins":[],"changed_fields":[],"suspensions":[]}','Creating',NULL,0,0,NULL,NULL,NULL,9,0,'Pending',NULL);
CREATE INDEX ix_access_rules_subject_id ON access_rules (subject_id);
CREATE INDEX ix_audit_at ON audit (at);
CREATE INDEX ix_events_workload ON events (workload);
CREATE INDEX ix_idempotency_created_at ON idempotency (created_at);
CREATE INDEX ix_pods_workload ON pods (workload);
CREATE INDEX ix_projects_department ON projects (department);
CREATE INDEX ix_tokens_family ON tokens (family);
CREATE INDEX ix_tokens_subject_id ON tokens (subject_id);
CREATE INDEX ix_workloads_created_at ON workloads (created_at);
CREATE INDEX ix_holdings_workload ON holdings (workload);
CREATE INDEX ix_workloads_deleted_at ON workloads (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX ix_workloads_existing_created_at ON workloads (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX ix_workloads_existing_name ON workloads (name, id) WHERE deleted_at IS NULL;
CREATE INDEX ix_workloads_existing_phase_created_at ON workloads (phase, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX ix_workloads_existing_phase_name ON workloads (phase, name, id) WHERE deleted_at IS NULL;
CREATE INDEX ix_workloads_existing_project_created_at ON workloads (project, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX ix_workloads_with_urls ON workloads (cluster) WHERE urls IS NOT NULL;
CREATE INDEX ix_credentials_kind ON credentials (kind);
COMMIT;
