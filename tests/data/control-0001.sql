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
INSERT INTO "access_rules" VALUES('85530d3d-94c1-4c72-802a-054171f21e86','296a8126-8891-4d79-9490-5bd6bcd67c78','user','administrator','tenant','',1800000000000,'');
INSERT INTO "access_rules" VALUES('1dfae540-9ad6-4e36-8a8f-9f76bcd6c668','30d13e99-18b9-45ac-a927-72a0ea522630','user','researcher','project','team-a',1800000000000,'test@run.ai');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE applications (
	id VARCHAR(64) NOT NULL, 
	name VARCHAR(256) NOT NULL, 
	secret_hash VARCHAR(64) NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_applications PRIMARY KEY (id), 
	CONSTRAINT uq_applications_name UNIQUE (name)
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
INSERT INTO "audit" VALUES(1,1800000000000,'test@run.ai','User','testclient','sign-in','POST','/api/v1/token','user','test@run.ai','296a8126-8891-4d79-9490-5bd6bcd67c78','Succeeded');
INSERT INTO "audit" VALUES(2,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/org-unit/projects','project','team-a','team-a','Succeeded');
INSERT INTO "audit" VALUES(3,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/org-unit/projects','project','team-b','team-b','Succeeded');
INSERT INTO "audit" VALUES(4,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/users','user','ann@example.com','30d13e99-18b9-45ac-a927-72a0ea522630','Succeeded');
INSERT INTO "audit" VALUES(5,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/authorization/access-rules','access-rule','30d13e99-18b9-45ac-a927-72a0ea522630 is researcher of team-a','1dfae540-9ad6-4e36-8a8f-9f76bcd6c668','Succeeded');
INSERT INTO "audit" VALUES(6,1800000000000,'ann@example.com','User','testclient','sign-in','POST','/api/v1/token','user','ann@example.com','30d13e99-18b9-45ac-a927-72a0ea522630','Succeeded');
INSERT INTO "audit" VALUES(7,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-a/first','01a3185c-5000-76e6-8dda-e159d01bf289','Succeeded');
INSERT INTO "audit" VALUES(8,1800000000000,'ann@example.com','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-a/second','01a3185c-5000-7137-a181-68329a647ab8','Succeeded');
INSERT INTO "audit" VALUES(9,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-b/waiting','01a3185c-5000-7bf3-8080-3bde8d4bf4c7','Succeeded');
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
INSERT INTO "changes" VALUES(4,'cluster','8cee696a-2bb0-409f-81cb-12ced3a5f1f9',NULL,'created',0,1800000000000);
INSERT INTO "changes" VALUES(5,'project','team-a','team-a','created',1,1800000000000);
INSERT INTO "changes" VALUES(6,'project','team-b','team-b','created',1,1800000000000);
INSERT INTO "changes" VALUES(7,'workload','01a3185c-5000-76e6-8dda-e159d01bf289','team-a','created',1,1800000000000);
INSERT INTO "changes" VALUES(8,'workload','01a3185c-5000-7137-a181-68329a647ab8','team-a','created',1,1800000000000);
INSERT INTO "changes" VALUES(9,'workload','01a3185c-5000-7bf3-8080-3bde8d4bf4c7','team-b','created',1,1800000000000);
INSERT INTO "changes" VALUES(10,'workload','01a3185c-5000-76e6-8dda-e159d01bf289','team-a','observed',0,1800000000000);
INSERT INTO "changes" VALUES(11,'node','n1',NULL,'observed',0,1800000000000);
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
	unsure BOOLEAN NOT NULL, 
	heard_at BIGINT, 
	CONSTRAINT pk_clusters PRIMARY KEY (id), 
	CONSTRAINT uq_clusters_name UNIQUE (name)
);
INSERT INTO "clusters" VALUES('8cee696a-2bb0-409f-81cb-12ced3a5f1f9','local','','',1800000000000,4,1,1,0,0,1800000000000);
CREATE TABLE departments (
	name VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_departments PRIMARY KEY (name)
);
INSERT INTO "departments" VALUES('default','{"name":"default","clusterId":null,"description":"","resources":[{"nodePool":{"id":"default","name":null},"gpu":{"deserved":-1,"limit":null,"overQuota":null,"overQuotaWeight":null},"cpu":{"deserved":-1,"limit":null,"overQuotaWeight":null},"memory":{"deserved":-1,"limit":null,"overQuotaWeight":null,"units":"Mib"},"priority":null}]}',1800000000000,1800000000000,2);
CREATE TABLE events (
	cluster VARCHAR(64) NOT NULL, 
	number BIGINT NOT NULL, 
	workload VARCHAR(64) NOT NULL, 
	at BIGINT NOT NULL, 
	document TEXT NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (cluster, number)
);
CREATE TABLE idempotency (
	caller VARCHAR(64) NOT NULL, 
	"key" VARCHAR(256) NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	status INTEGER NOT NULL, 
	answer TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_idempotency PRIMARY KEY (caller, "key")
);
CREATE TABLE node_marks (
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
INSERT INTO "nodes" VALUES('8cee696a-2bb0-409f-81cb-12ced3a5f1f9','n1','{"name":"n1","pool":"default","ready":true,"cordoned":false,"silent_since":null,"gpus":8,"gpus_used_milli":0,"pods":0,"cpu_milli":0,"memory_bytes":0,"gpu_memory_mib":0,"gpus_withheld":[],"labels":{}}',11);
CREATE TABLE pods (
	id VARCHAR(128) NOT NULL, 
	workload VARCHAR(64) NOT NULL, 
	place INTEGER NOT NULL, 
	incarnation INTEGER NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	document TEXT NOT NULL, 
	seen_at BIGINT NOT NULL, 
	since BIGINT NOT NULL, 
	CONSTRAINT pk_pods PRIMARY KEY (id)
);
INSERT INTO "pods" VALUES('01a3185c-5000-76e6-8dda-e159d01bf289-0-0','01a3185c-5000-76e6-8dda-e159d01bf289',0,0,'running','{"id":"01a3185c-5000-76e6-8dda-e159d01bf289-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000000000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":""}',1800000000000,1800000000000);
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
INSERT INTO "projects" VALUES('team-a','default','8cee696a-2bb0-409f-81cb-12ced3a5f1f9','Ready','{"name":"team-a","clusterId":null,"parentId":"default","requestedNamespace":null,"enforceRunaiScheduler":true,"description":"","defaultNodePools":[],"nodeTypes":{"training":[],"workspace":[]},"schedulingRules":{"interactiveJobTimeLimitSeconds":null,"interactiveJobMaxIdleDurationSeconds":null,"interactiveJobPreemptIdleDurationSeconds":null,"trainingJobMaxIdleDurationSeconds":null,"trainingJobTimeLimitSeconds":null},"resources":[{"nodePool":{"id":"default","name":null},"gpu":{"deserved":4,"limit":null,"overQuota":null,"overQuotaWeight":null},"cpu":{"deserved":-1,"limit":null,"overQuotaWeight":null},"memory":{"deserved":-1,"limit":null,"overQuotaWeight":null,"units":"Mib"},"priority":null}]}',1800000000000,'test@run.ai',1800000000000,5);
INSERT INTO "projects" VALUES('team-b','default','8cee696a-2bb0-409f-81cb-12ced3a5f1f9','Ready','{"name":"team-b","clusterId":null,"parentId":"default","requestedNamespace":null,"enforceRunaiScheduler":true,"description":"","defaultNodePools":[],"nodeTypes":{"training":[],"workspace":[]},"schedulingRules":{"interactiveJobTimeLimitSeconds":null,"interactiveJobMaxIdleDurationSeconds":null,"interactiveJobPreemptIdleDurationSeconds":null,"trainingJobMaxIdleDurationSeconds":null,"trainingJobTimeLimitSeconds":null},"resources":[{"nodePool":{"id":"default","name":null},"gpu":{"deserved":2,"limit":null,"overQuota":null,"overQuotaWeight":null},"cpu":{"deserved":-1,"limit":null,"overQuotaWeight":null},"memory":{"deserved":-1,"limit":null,"overQuotaWeight":null,"units":"Mib"},"priority":null}]}',1800000000000,'test@run.ai',1800000000000,6);
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
	oldest BIGINT NOT NULL, 
	CONSTRAINT pk_revision PRIMARY KEY (id)
);
INSERT INTO "revision" VALUES(1,11,9,0);
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
INSERT INTO "tokens" VALUES('5f8501f2f0c3aa84bc521962dcc80366895b3a704a5db6b7dee4cf76dd60ea79','9e672b84-821d-4d44-8983-590e4047d9ab','access','296a8126-8891-4d79-9490-5bd6bcd67c78','user',1800000000000,1800036000000);
INSERT INTO "tokens" VALUES('81f91a75c54cf687441a21e415465d579f8b67bca253d3e96756932e28bec187','9e672b84-821d-4d44-8983-590e4047d9ab','refresh','296a8126-8891-4d79-9490-5bd6bcd67c78','user',1800000000000,1802592000000);
INSERT INTO "tokens" VALUES('a88faaf1de507d3153a05f9f6c67115a38a7738fcd4996b7b7a1ceaff2b7d686','8cee696a-2bb0-409f-81cb-12ced3a5f1f9','cluster','8cee696a-2bb0-409f-81cb-12ced3a5f1f9','cluster',1800000000000,NULL);
INSERT INTO "tokens" VALUES('b5fd136aec18d2ed050bd5e322d6dbe3e49e7be16300f684e1429bf18109ea9e','282ae5c2-4e1c-46b2-be7c-205da8f84ee3','access','30d13e99-18b9-45ac-a927-72a0ea522630','user',1800000000000,1800036000000);
INSERT INTO "tokens" VALUES('9dbb16a45e26468c0a06537fe412f4db9a5943988b4507a7df9206883f8253e7','282ae5c2-4e1c-46b2-be7c-205da8f84ee3','refresh','30d13e99-18b9-45ac-a927-72a0ea522630','user',1800000000000,1802592000000);
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
INSERT INTO "users" VALUES('296a8126-8891-4d79-9490-5bd6bcd67c78','test@run.ai','$argon2id$v=19$m=8,t=1,p=1$W3e0+KzAVAvwpj9sByfQDg$wzdSxhiSFXF5APfJXkPnojSLPD0T8GLkyfsZHoX4XWk',0,1,1800000000000);
INSERT INTO "users" VALUES('30d13e99-18b9-45ac-a927-72a0ea522630','ann@example.com','$argon2id$v=19$m=8,t=1,p=1$TScioh5Rwo3FEhZ5mNYntA$JXPJkVjD+gtrI10Kqv+tP9VJNQ0uEN2vUZC7db0ULJo',0,0,1800000000000);
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
	want VARCHAR(16) NOT NULL, 
	run INTEGER NOT NULL, 
	request TEXT NOT NULL, 
	declaration TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	report TEXT, 
	allocated_gpus_milli BIGINT NOT NULL, 
	running_pods INTEGER NOT NULL, 
	started_at BIGINT, 
	completed_at BIGINT, 
	gone_at BIGINT, 
	item TEXT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_workloads PRIMARY KEY (id), 
	CONSTRAINT uq_workloads_name_key UNIQUE (name_key)
);
INSERT INTO "workloads" VALUES('01a3185c-5000-76e6-8dda-e159d01bf289','first','team-a/first','team-a','default','8cee696a-2bb0-409f-81cb-12ced3a5f1f9','Training','test@run.ai',1800000000000,1000,'run',0,'{"workloadId":"01a3185c-5000-76e6-8dda-e159d01bf289","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"}}}','{"id":"01a3185c-5000-76e6-8dda-e159d01bf289","name":"first","project":"team-a","created_at":1800000000000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"run","run":0}','{"id":"01a3185c-5000-76e6-8dda-e159d01bf289","name":"first","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"8cee696a-2bb0-409f-81cb-12ced3a5f1f9","submittedBy":"test@run.ai","createdAt":"2027-01-15T08:00:00.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train"}','Running','{"id":"01a3185c-5000-76e6-8dda-e159d01bf289","run":0,"phase":"Running","reason":null,"detail":"","pool":"default","gpus_milli":1000,"pods":[{"id":"01a3185c-5000-76e6-8dda-e159d01bf289-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000000000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":""}],"since":1800000000000,"failures":0,"waiting_since":null}',1000,1,1800000000000,NULL,NULL,'{"id":"01a3185c-5000-76e6-8dda-e159d01bf289","name":"first","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"8cee696a-2bb0-409f-81cb-12ced3a5f1f9","submittedBy":"test@run.ai","createdAt":"2027-01-15T08:00:00.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Running","reason":"","phaseMessage":"","classicStatus":"Running","desiredPhase":"Running","phaseSince":"2027-01-15T08:00:00.000Z","startedAt":"2027-01-15T08:00:00.000Z","runningPods":1,"pendingPods":0,"allocatedResources":{"gpu":1.0},"currentNodes":["n1"],"currentNodePools":["default"],"urls":[],"revision":7}',7);
INSERT INTO "workloads" VALUES('01a3185c-5000-7137-a181-68329a647ab8','second','team-a/second','team-a','default','8cee696a-2bb0-409f-81cb-12ced3a5f1f9','Training','ann@example.com',1800000000000,1000,'run',0,'{"workloadId":"01a3185c-5000-7137-a181-68329a647ab8","createdBy":"ann@example.com","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"}}}','{"id":"01a3185c-5000-7137-a181-68329a647ab8","name":"second","project":"team-a","created_at":1800000000000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"run","run":0}','{"id":"01a3185c-5000-7137-a181-68329a647ab8","name":"second","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"8cee696a-2bb0-409f-81cb-12ced3a5f1f9","submittedBy":"ann@example.com","createdAt":"2027-01-15T08:00:00.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train"}','Creating',NULL,0,0,NULL,NULL,NULL,'{"id":"01a3185c-5000-7137-a181-68329a647ab8","name":"second","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"8cee696a-2bb0-409f-81cb-12ced3a5f1f9","submittedBy":"ann@example.com","createdAt":"2027-01-15T08:00:00.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Creating","reason":"","phaseMessage":"","classicStatus":"Pending","desiredPhase":"Running","runningPods":0,"pendingPods":0,"allocatedResources":{"gpu":0.0},"currentNodes":[],"currentNodePools":[],"urls":[],"revision":8}',8);
INSERT INTO "workloads" VALUES('01a3185c-5000-7bf3-8080-3bde8d4bf4c7','waiting','team-b/waiting','team-b','default','8cee696a-2bb0-409f-81cb-12ced3a5f1f9','Training','test@run.ai',1800000000000,1000,'run',0,'{"workloadId":"01a3185c-5000-7bf3-8080-3bde8d4bf4c7","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"}}}','{"id":"01a3185c-5000-7bf3-8080-3bde8d4bf4c7","name":"waiting","project":"team-b","created_at":1800000000000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"run","run":0}','{"id":"01a3185c-5000-7bf3-8080-3bde8d4bf4c7","name":"waiting","type":"Training","projectId":"team-b","projectName":"team-b","departmentId":"default","departmentName":"default","clusterId":"8cee696a-2bb0-409f-81cb-12ced3a5f1f9","submittedBy":"test@run.ai","createdAt":"2027-01-15T08:00:00.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train"}','Creating',NULL,0,0,NULL,NULL,NULL,'{"id":"01a3185c-5000-7bf3-8080-3bde8d4bf4c7","name":"waiting","type":"Training","projectId":"team-b","projectName":"team-b","departmentId":"default","departmentName":"default","clusterId":"8cee696a-2bb0-409f-81cb-12ced3a5f1f9","submittedBy":"test@run.ai","createdAt":"2027-01-15T08:00:00.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Creating","reason":"","phaseMessage":"","classicStatus":"Pending","desiredPhase":"Running","runningPods":0,"pendingPods":0,"allocatedResources":{"gpu":0.0},"currentNodes":[],"currentNodePools":[],"urls":[],"revision":9}',9);
CREATE INDEX ix_access_rules_subject_id ON access_rules (subject_id);
CREATE INDEX ix_audit_at ON audit (at);
CREATE INDEX ix_events_workload ON events (workload);
CREATE INDEX ix_idempotency_created_at ON idempotency (created_at);
CREATE INDEX ix_pods_workload ON pods (workload);
CREATE INDEX ix_projects_department ON projects (department);
CREATE INDEX ix_tokens_family ON tokens (family);
CREATE INDEX ix_tokens_subject_id ON tokens (subject_id);
CREATE INDEX ix_workloads_created_at ON workloads (created_at);
CREATE INDEX ix_workloads_name ON workloads (name);
CREATE INDEX ix_workloads_phase ON workloads (phase);
CREATE INDEX ix_workloads_project_created_at ON workloads (project, created_at);
COMMIT;
