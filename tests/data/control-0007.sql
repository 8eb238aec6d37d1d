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
INSERT INTO "access_rules" VALUES('b3f811ca-f36b-48c8-a228-265472dd55ac','a1118b1d-7705-4a01-9120-ca4eb2ecdf50','user','administrator','tenant','',1800000000000,'');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0007');
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
INSERT INTO "audit" VALUES(1,1800000000000,'test@run.ai','User','testclient','sign-in','POST','/api/v1/token','user','test@run.ai','a1118b1d-7705-4a01-9120-ca4eb2ecdf50','Succeeded');
INSERT INTO "audit" VALUES(2,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/org-unit/departments','department','science','science','Succeeded');
INSERT INTO "audit" VALUES(3,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/org-unit/projects','project','team-a','team-a','Succeeded');
INSERT INTO "audit" VALUES(4,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/org-unit/projects','project','team-b','team-b','Succeeded');
INSERT INTO "audit" VALUES(5,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/org-unit/projects','project','team-c','team-c','Succeeded');
INSERT INTO "audit" VALUES(6,1800000000000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-a/first','01a3185c-5000-7f72-8ade-98c285f772de','Succeeded');
INSERT INTO "audit" VALUES(7,1800000001000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-a/second','01a3185c-53e8-7868-bbe2-4131e459c6de','Succeeded');
INSERT INTO "audit" VALUES(8,1800000002000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-b/paused','01a3185c-57d0-76c8-8b7b-4ac347530672','Succeeded');
INSERT INTO "audit" VALUES(9,1800000002000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-b/waiting','01a3185c-57d0-74b7-be6f-d1ad12d6d416','Succeeded');
INSERT INTO "audit" VALUES(10,1800000002000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-a/done','01a3185c-57d0-7068-870d-3667cbd30e51','Succeeded');
INSERT INTO "audit" VALUES(11,1800000002000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-a/gone-one','01a3185c-57d0-7317-86c5-92363d9d8153','Succeeded');
INSERT INTO "audit" VALUES(12,1800000002000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-c/buried','01a3185c-57d0-7ef7-8b70-edddb006f7a7','Succeeded');
INSERT INTO "audit" VALUES(13,1800000002000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/inferences','workload','team-b/model','01a3185c-57d0-70f7-af46-3da6c76d97af','Succeeded');
INSERT INTO "audit" VALUES(14,1800000002000,'test@run.ai','User','testclient','create','POST','/api/v1/workloads/trainings','workload','team-a/leaving','01a3185c-57d0-72a8-9fac-1a2e16ceaac4','Succeeded');
INSERT INTO "audit" VALUES(15,1800000012000,'test@run.ai','User','testclient','update','POST','/api/v1/workloads/01a3185c-57d0-76c8-8b7b-4ac347530672/suspend','workload','team-b/paused','01a3185c-57d0-76c8-8b7b-4ac347530672','Succeeded');
INSERT INTO "audit" VALUES(16,1800000012000,'test@run.ai','User','testclient','delete','DELETE','/api/v1/workloads/01a3185c-57d0-7317-86c5-92363d9d8153','workload','team-a/gone-one','01a3185c-57d0-7317-86c5-92363d9d8153','Succeeded');
INSERT INTO "audit" VALUES(17,1800000012000,'test@run.ai','User','testclient','delete','DELETE','/api/v1/workloads/01a3185c-57d0-7ef7-8b70-edddb006f7a7','workload','team-c/buried','01a3185c-57d0-7ef7-8b70-edddb006f7a7','Succeeded');
INSERT INTO "audit" VALUES(18,1800000012000,'test@run.ai','User','testclient','delete','DELETE','/api/v1/workloads/01a3185c-57d0-72a8-9fac-1a2e16ceaac4','workload','team-a/leaving','01a3185c-57d0-72a8-9fac-1a2e16ceaac4','Succeeded');
INSERT INTO "audit" VALUES(19,1800000012000,'test@run.ai','User','testclient','delete','DELETE','/api/v1/org-unit/projects/team-c','project','team-c','team-c','Succeeded');
INSERT INTO "audit" VALUES(20,1800000012000,'test@run.ai','User','testclient','update','PUT','/api/v1/nodes/n2/marks','node','n2','n2','Succeeded');
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
INSERT INTO "changes" VALUES(4,'cluster','752a6f31-900f-4cb3-8268-2605ab3c4965',NULL,'created',0,1800000000000);
INSERT INTO "changes" VALUES(5,'department','science',NULL,'created',1,1800000000000);
INSERT INTO "changes" VALUES(6,'project','team-a','team-a','created',1,1800000000000);
INSERT INTO "changes" VALUES(7,'project','team-b','team-b','created',1,1800000000000);
INSERT INTO "changes" VALUES(8,'project','team-c','team-c/23','created',1,1800000000000);
INSERT INTO "changes" VALUES(9,'node','n1',NULL,'observed',0,1800000000000);
INSERT INTO "changes" VALUES(10,'node','n2',NULL,'observed',0,1800000000000);
INSERT INTO "changes" VALUES(11,'workload','01a3185c-5000-7f72-8ade-98c285f772de','team-a','created',1,1800000000000);
INSERT INTO "changes" VALUES(12,'workload','01a3185c-53e8-7868-bbe2-4131e459c6de','team-a','created',1,1800000001000);
INSERT INTO "changes" VALUES(13,'workload','01a3185c-57d0-76c8-8b7b-4ac347530672','team-b','created',1,1800000002000);
INSERT INTO "changes" VALUES(14,'workload','01a3185c-57d0-74b7-be6f-d1ad12d6d416','team-b','created',1,1800000002000);
INSERT INTO "changes" VALUES(15,'workload','01a3185c-57d0-7068-870d-3667cbd30e51','team-a','created',1,1800000002000);
INSERT INTO "changes" VALUES(16,'workload','01a3185c-57d0-7317-86c5-92363d9d8153','team-a','created',1,1800000002000);
INSERT INTO "changes" VALUES(17,'workload','01a3185c-57d0-7ef7-8b70-edddb006f7a7','team-c/23','created',1,1800000002000);
INSERT INTO "changes" VALUES(18,'workload','01a3185c-57d0-70f7-af46-3da6c76d97af','team-b','created',1,1800000002000);
INSERT INTO "changes" VALUES(19,'workload','01a3185c-57d0-72a8-9fac-1a2e16ceaac4','team-a','created',1,1800000002000);
INSERT INTO "changes" VALUES(20,'workload','01a3185c-5000-7f72-8ade-98c285f772de','team-a','observed',0,1800000007000);
INSERT INTO "changes" VALUES(21,'workload','01a3185c-53e8-7868-bbe2-4131e459c6de','team-a','observed',0,1800000007000);
INSERT INTO "changes" VALUES(22,'workload','01a3185c-57d0-76c8-8b7b-4ac347530672','team-b','observed',0,1800000007000);
INSERT INTO "changes" VALUES(23,'workload','01a3185c-57d0-70f7-af46-3da6c76d97af','team-b','observed',0,1800000007000);
INSERT INTO "changes" VALUES(24,'workload','01a3185c-57d0-7317-86c5-92363d9d8153','team-a','observed',0,1800000007000);
INSERT INTO "changes" VALUES(25,'workload','01a3185c-57d0-7ef7-8b70-edddb006f7a7','team-c/23','observed',0,1800000007000);
INSERT INTO "changes" VALUES(26,'workload','01a3185c-57d0-72a8-9fac-1a2e16ceaac4','team-a','observed',0,1800000007000);
INSERT INTO "changes" VALUES(27,'workload','01a3185c-57d0-74b7-be6f-d1ad12d6d416','team-b','observed',0,1800000007000);
INSERT INTO "changes" VALUES(28,'workload','01a3185c-57d0-7068-870d-3667cbd30e51','team-a','observed',0,1800000007000);
INSERT INTO "changes" VALUES(29,'workload','01a3185c-57d0-76c8-8b7b-4ac347530672','team-b','suspended',1,1800000012000);
INSERT INTO "changes" VALUES(30,'workload','01a3185c-57d0-7317-86c5-92363d9d8153','team-a','deleted',1,1800000012000);
INSERT INTO "changes" VALUES(31,'workload','01a3185c-57d0-7ef7-8b70-edddb006f7a7','team-c/23','deleted',1,1800000012000);
INSERT INTO "changes" VALUES(32,'workload','01a3185c-57d0-72a8-9fac-1a2e16ceaac4','team-a','deleted',1,1800000012000);
INSERT INTO "changes" VALUES(33,'workload','01a3185c-57d0-7317-86c5-92363d9d8153','team-a','gone',1,1800000012000);
INSERT INTO "changes" VALUES(34,'workload','01a3185c-57d0-7ef7-8b70-edddb006f7a7','team-c/23','gone',1,1800000012000);
INSERT INTO "changes" VALUES(35,'project','team-c','team-c/23','deleted',1,1800000012000);
INSERT INTO "changes" VALUES(36,'node','n2',NULL,'updated',1,1800000012000);
CREATE TABLE claims (
	project VARCHAR(64) NOT NULL, 
	name VARCHAR(256) NOT NULL, 
	size VARCHAR(32) NOT NULL, 
	created_at BIGINT NOT NULL, 
	created_by VARCHAR(256) NOT NULL, 
	CONSTRAINT pk_claims PRIMARY KEY (project, name)
);
INSERT INTO "claims" VALUES('team-a','old','1Gi',1800000002000,'test@run.ai');
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
INSERT INTO "clusters" VALUES('752a6f31-900f-4cb3-8268-2605ab3c4965','local','','',1800000000000,4,1,3,1,0,1800000012000);
CREATE TABLE departments (
	name VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_departments PRIMARY KEY (name)
);
INSERT INTO "departments" VALUES('default','{"name":"default","clusterId":null,"description":"","resources":[{"nodePool":{"id":"default","name":null},"priority":null,"preemptMinRuntimeSeconds":null,"reclaimMinRuntimeSeconds":null,"gpu":{"limit":null,"overQuota":null,"overQuotaWeight":null,"deserved":null},"cpu":{"limit":null,"overQuotaWeight":null,"deserved":null},"memory":{"limit":null,"overQuotaWeight":null,"units":"Mib","deserved":null}}]}',1800000000000,1800000000000,2);
INSERT INTO "departments" VALUES('science','{"name":"science","clusterId":null,"description":"","resources":[{"nodePool":{"id":"default","name":null},"priority":null,"preemptMinRuntimeSeconds":null,"reclaimMinRuntimeSeconds":null,"gpu":{"limit":null,"overQuota":null,"overQuotaWeight":null,"deserved":8},"cpu":{"limit":null,"overQuotaWeight":null,"deserved":null},"memory":{"limit":null,"overQuotaWeight":null,"units":"Mib","deserved":null}}]}',1800000000000,1800000000000,5);
CREATE TABLE events (
	cluster VARCHAR(64) NOT NULL, 
	number BIGINT NOT NULL, 
	workload VARCHAR(64) NOT NULL, 
	at BIGINT NOT NULL, 
	document TEXT NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (cluster, number)
);
INSERT INTO "events" VALUES('752a6f31-900f-4cb3-8268-2605ab3c4965',1,'01a3185c-5000-7f72-8ade-98c285f772de',1800000000000,'{"number":1,"at":1800000000000,"kind":"bound","workload":"01a3185c-5000-7f72-8ade-98c285f772de","pod":null,"node":"n1","cause":"","detail":"","outcome":null,"exit_code":null}');
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
INSERT INTO "holdings" VALUES('01a3185c-5000-7f72-8ade-98c285f772de-0-0','01a3185c-5000-7f72-8ade-98c285f772de','752a6f31-900f-4cb3-8268-2605ab3c4965','n1','[]',1000,1000,0);
INSERT INTO "holdings" VALUES('01a3185c-53e8-7868-bbe2-4131e459c6de-0-0','01a3185c-53e8-7868-bbe2-4131e459c6de','752a6f31-900f-4cb3-8268-2605ab3c4965','n1','[]',0,0,0);
INSERT INTO "holdings" VALUES('01a3185c-57d0-76c8-8b7b-4ac347530672-0-0','01a3185c-57d0-76c8-8b7b-4ac347530672','752a6f31-900f-4cb3-8268-2605ab3c4965','n1','[]',0,0,0);
INSERT INTO "holdings" VALUES('01a3185c-57d0-70f7-af46-3da6c76d97af-0-0','01a3185c-57d0-70f7-af46-3da6c76d97af','752a6f31-900f-4cb3-8268-2605ab3c4965','n1','[]',0,0,0);
INSERT INTO "holdings" VALUES('01a3185c-57d0-72a8-9fac-1a2e16ceaac4-0-0','01a3185c-57d0-72a8-9fac-1a2e16ceaac4','752a6f31-900f-4cb3-8268-2605ab3c4965','n1','[]',0,0,0);
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
INSERT INTO "node_marks" VALUES('752a6f31-900f-4cb3-8268-2605ab3c4965','n2','{"cordoned":true,"taints":[],"labels":{}}',36);
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
INSERT INTO "nodes" VALUES('752a6f31-900f-4cb3-8268-2605ab3c4965','n1','{"name":"n1","pool":"default","ready":true,"cordoned":false,"silent_since":null,"gpus":8,"cpu_milli":0,"memory_bytes":0,"gpu_memory_mib":0,"gpus_withheld":[],"words":"","labels":{},"images":null}',9);
INSERT INTO "nodes" VALUES('752a6f31-900f-4cb3-8268-2605ab3c4965','n2','{"name":"n2","pool":"default","ready":true,"cordoned":false,"silent_since":null,"gpus":8,"cpu_milli":0,"memory_bytes":0,"gpu_memory_mib":0,"gpus_withheld":[],"words":"","labels":{},"images":null}',10);
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
INSERT INTO "pods" VALUES('01a3185c-5000-7f72-8ade-98c285f772de-0-0','01a3185c-5000-7f72-8ade-98c285f772de',0,0,'running','{"id":"01a3185c-5000-7f72-8ade-98c285f772de-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"image is being pulled again","gpus_milli":1000,"cpu_milli":1000,"memory_bytes":0}',1800000007000,1800000007000);
INSERT INTO "pods" VALUES('01a3185c-53e8-7868-bbe2-4131e459c6de-0-0','01a3185c-53e8-7868-bbe2-4131e459c6de',0,0,'running','{"id":"01a3185c-53e8-7868-bbe2-4131e459c6de-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}',1800000007000,1800000007000);
INSERT INTO "pods" VALUES('01a3185c-57d0-76c8-8b7b-4ac347530672-0-0','01a3185c-57d0-76c8-8b7b-4ac347530672',0,0,'running','{"id":"01a3185c-57d0-76c8-8b7b-4ac347530672-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}',1800000007000,1800000007000);
INSERT INTO "pods" VALUES('01a3185c-57d0-70f7-af46-3da6c76d97af-0-0','01a3185c-57d0-70f7-af46-3da6c76d97af',0,0,'running','{"id":"01a3185c-57d0-70f7-af46-3da6c76d97af-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}',1800000007000,1800000007000);
INSERT INTO "pods" VALUES('01a3185c-57d0-7317-86c5-92363d9d8153-0-0','01a3185c-57d0-7317-86c5-92363d9d8153',0,0,'running','{"id":"01a3185c-57d0-7317-86c5-92363d9d8153-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}',1800000007000,1800000007000);
INSERT INTO "pods" VALUES('01a3185c-57d0-7ef7-8b70-edddb006f7a7-0-0','01a3185c-57d0-7ef7-8b70-edddb006f7a7',0,0,'running','{"id":"01a3185c-57d0-7ef7-8b70-edddb006f7a7-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}',1800000007000,1800000007000);
INSERT INTO "pods" VALUES('01a3185c-57d0-72a8-9fac-1a2e16ceaac4-0-0','01a3185c-57d0-72a8-9fac-1a2e16ceaac4',0,0,'running','{"id":"01a3185c-57d0-72a8-9fac-1a2e16ceaac4-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}',1800000007000,1800000007000);
INSERT INTO "pods" VALUES('01a3185c-57d0-7068-870d-3667cbd30e51-0-0','01a3185c-57d0-7068-870d-3667cbd30e51',0,0,'ended','{"id":"01a3185c-57d0-7068-870d-3667cbd30e51-0-0","index":0,"incarnation":0,"phase":"ended","node":"n1","devices":[],"started_at":null,"outcome":"ok","cause":null,"detail":"","exit_code":0,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}',1800000007000,1800000007000);
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
INSERT INTO "projects" VALUES('team-a','default','752a6f31-900f-4cb3-8268-2605ab3c4965','Ready','{"name":"team-a","clusterId":null,"parentId":"default","requestedNamespace":null,"enforceRunaiScheduler":true,"description":"","defaultNodePools":[],"nodeTypes":{"training":[],"workspace":[]},"schedulingRules":{"interactiveJobTimeLimitSeconds":null,"interactiveJobMaxIdleDurationSeconds":null,"interactiveJobPreemptIdleDurationSeconds":null,"trainingJobMaxIdleDurationSeconds":null,"trainingJobTimeLimitSeconds":null},"resources":[{"nodePool":{"id":"default","name":null},"priority":null,"preemptMinRuntimeSeconds":null,"reclaimMinRuntimeSeconds":null,"gpu":{"limit":null,"overQuota":null,"overQuotaWeight":null,"deserved":4},"cpu":{"limit":null,"overQuotaWeight":null,"deserved":-1},"memory":{"limit":null,"overQuotaWeight":null,"units":"Mib","deserved":-1}}]}',1800000000000,'test@run.ai',1800000000000,6);
INSERT INTO "projects" VALUES('team-b','science','752a6f31-900f-4cb3-8268-2605ab3c4965','Ready','{"name":"team-b","clusterId":null,"parentId":"science","requestedNamespace":null,"enforceRunaiScheduler":true,"description":"","defaultNodePools":[],"nodeTypes":{"training":[],"workspace":[]},"schedulingRules":{"interactiveJobTimeLimitSeconds":null,"interactiveJobMaxIdleDurationSeconds":null,"interactiveJobPreemptIdleDurationSeconds":null,"trainingJobMaxIdleDurationSeconds":null,"trainingJobTimeLimitSeconds":null},"resources":[{"nodePool":{"id":"default","name":null},"priority":null,"preemptMinRuntimeSeconds":null,"reclaimMinRuntimeSeconds":null,"gpu":{"limit":null,"overQuota":null,"overQuotaWeight":null,"deserved":4},"cpu":{"limit":null,"overQuotaWeight":null,"deserved":-1},"memory":{"limit":null,"overQuotaWeight":null,"units":"Mib","deserved":-1}}]}',1800000000000,'test@run.ai',1800000000000,7);
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
INSERT INTO "revision" VALUES(1,36,36,0);
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
INSERT INTO "tokens" VALUES('bd9e7817a2e4b7319bcd4c17f5ca9afc90f317993b01227f5327b56660e2a527','4e33ed37-fd69-48b9-a935-40e6bb89aa9c','access','a1118b1d-7705-4a01-9120-ca4eb2ecdf50','user',1800000000000,1800036000000);
INSERT INTO "tokens" VALUES('361433376431319b8449efa3eb06e5657be26684cf327060557c77e744cb4461','4e33ed37-fd69-48b9-a935-40e6bb89aa9c','refresh','a1118b1d-7705-4a01-9120-ca4eb2ecdf50','user',1800000000000,1802592000000);
INSERT INTO "tokens" VALUES('9a104acb579f2a2bca0a4cccb41648d2931bc7e2001945998e26517ab3300b88','752a6f31-900f-4cb3-8268-2605ab3c4965','cluster','752a6f31-900f-4cb3-8268-2605ab3c4965','cluster',1800000000000,NULL);
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
INSERT INTO "users" VALUES('a1118b1d-7705-4a01-9120-ca4eb2ecdf50','test@run.ai','$argon2id$v=19$m=8,t=1,p=1$mjUr9/YtITAW9fRQHWv5NQ$OW2EALgary6fSxvSazoMHMIPvxiShukSgFu6G8wB7yg',0,0,1800000000000);
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
INSERT INTO "workloads" VALUES('01a3185c-5000-7f72-8ade-98c285f772de','first','team-a/first','team-a','default','752a6f31-900f-4cb3-8268-2605ab3c4965','Training','test@run.ai',1800000000000,1000,'run',0,'{"workloadId":"01a3185c-5000-7f72-8ade-98c285f772de","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"},"ports":[{"container":8888,"serviceType":"Ingress"}],"labels":{"team":"vision","stage":"a\"b"}}}','{"id":"01a3185c-5000-7f72-8ade-98c285f772de","name":"first","project":"team-a","created_at":1800000000000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[["stage","a\"b"],["team","vision"]],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"run","run":0,"after":[],"array":null}','{"id":"01a3185c-5000-7f72-8ade-98c285f772de","name":"first","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{"team":"vision","stage":"a\"b"},"createdAt":"2027-01-15T08:00:00.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train","retries":6,"addresses":["http://127.0.0.1:8888"]}','Running','{"id":"01a3185c-5000-7f72-8ade-98c285f772de","run":0,"phase":"Running","reason":null,"detail":"","pool":"default","gpus_milli":1000,"cpu_milli":0,"memory_bytes":0,"pods":[{"id":"01a3185c-5000-7f72-8ade-98c285f772de-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"image is being pulled again","gpus_milli":1000,"cpu_milli":1000,"memory_bytes":0}],"since":1800000007000,"failures":0,"next_try_at":null,"waiting_since":null}',1000,1,1800000007000,NULL,NULL,'{"id":"01a3185c-5000-7f72-8ade-98c285f772de","name":"first","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{"team":"vision","stage":"a\"b"},"createdAt":"2027-01-15T08:00:00.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Running","reason":"","phaseMessage":"","classicStatus":"Running","desiredPhase":"Running","phaseSince":"2027-01-15T08:00:07.000Z","startedAt":"2027-01-15T08:00:07.000Z","runningPods":1,"pendingPods":0,"failedTries":0,"retriesLeft":6,"allocatedResources":{"gpu":1.0,"cpu":0.0,"memoryBytes":0},"currentNodes":["n1"],"currentNodePools":["default"],"urls":["http://127.0.0.1:8888"],"revision":11}',11);
INSERT INTO "workloads" VALUES('01a3185c-53e8-7868-bbe2-4131e459c6de','second','team-a/second','team-a','default','752a6f31-900f-4cb3-8268-2605ab3c4965','Training','test@run.ai',1800000001000,1000,'run',0,'{"workloadId":"01a3185c-53e8-7868-bbe2-4131e459c6de","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"},"ports":[{"container":8888,"serviceType":"Ingress"}]}}','{"id":"01a3185c-53e8-7868-bbe2-4131e459c6de","name":"second","project":"team-a","created_at":1800000001000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"run","run":0,"after":[],"array":null}','{"id":"01a3185c-53e8-7868-bbe2-4131e459c6de","name":"second","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:01.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train","retries":6,"addresses":["http://127.0.0.1:8888"]}','Running','{"id":"01a3185c-53e8-7868-bbe2-4131e459c6de","run":0,"phase":"Running","reason":null,"detail":"","pool":"default","gpus_milli":1000,"cpu_milli":0,"memory_bytes":0,"pods":[{"id":"01a3185c-53e8-7868-bbe2-4131e459c6de-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}],"since":1800000007000,"failures":0,"next_try_at":null,"waiting_since":null}',1000,1,1800000007000,NULL,NULL,'{"id":"01a3185c-53e8-7868-bbe2-4131e459c6de","name":"second","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:01.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Running","reason":"","phaseMessage":"port 8888 is used by another job; `runai logs second` shows where this one listens","classicStatus":"Running","desiredPhase":"Running","phaseSince":"2027-01-15T08:00:07.000Z","startedAt":"2027-01-15T08:00:07.000Z","runningPods":1,"pendingPods":0,"failedTries":0,"retriesLeft":6,"allocatedResources":{"gpu":1.0,"cpu":0.0,"memoryBytes":0},"currentNodes":["n1"],"currentNodePools":["default"],"urls":[],"revision":12}',12);
INSERT INTO "workloads" VALUES('01a3185c-57d0-76c8-8b7b-4ac347530672','paused','team-b/paused','team-b','science','752a6f31-900f-4cb3-8268-2605ab3c4965','Training','test@run.ai',1800000002000,1000,'stop',0,'{"workloadId":"01a3185c-57d0-76c8-8b7b-4ac347530672","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"}}}','{"id":"01a3185c-57d0-76c8-8b7b-4ac347530672","name":"paused","project":"team-b","created_at":1800000002000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"stop","run":0,"after":[],"array":null}','{"id":"01a3185c-57d0-76c8-8b7b-4ac347530672","name":"paused","type":"Training","projectId":"team-b","projectName":"team-b","departmentId":"science","departmentName":"science","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train","retries":6,"addresses":[],"suspensions":[[1800000012000,"test@run.ai"]]}','Running','{"id":"01a3185c-57d0-76c8-8b7b-4ac347530672","run":0,"phase":"Running","reason":null,"detail":"","pool":"default","gpus_milli":1000,"cpu_milli":0,"memory_bytes":0,"pods":[{"id":"01a3185c-57d0-76c8-8b7b-4ac347530672-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}],"since":1800000007000,"failures":0,"next_try_at":null,"waiting_since":null}',1000,1,1800000007000,NULL,NULL,'{"id":"01a3185c-57d0-76c8-8b7b-4ac347530672","name":"paused","type":"Training","projectId":"team-b","projectName":"team-b","departmentId":"science","departmentName":"science","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Running","reason":"","phaseMessage":"","classicStatus":"Running","desiredPhase":"Stopped","phaseSince":"2027-01-15T08:00:07.000Z","startedAt":"2027-01-15T08:00:07.000Z","runningPods":1,"pendingPods":0,"failedTries":0,"retriesLeft":6,"suspendedBy":"test@run.ai","allocatedResources":{"gpu":1.0,"cpu":0.0,"memoryBytes":0},"currentNodes":["n1"],"currentNodePools":["default"],"urls":[],"revision":29}',29);
INSERT INTO "workloads" VALUES('01a3185c-57d0-74b7-be6f-d1ad12d6d416','waiting','team-b/waiting','team-b','science','752a6f31-900f-4cb3-8268-2605ab3c4965','Training','test@run.ai',1800000002000,500,'run',0,'{"workloadId":"01a3185c-57d0-74b7-be6f-d1ad12d6d416","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"0.5"}}}','{"id":"01a3185c-57d0-74b7-be6f-d1ad12d6d416","name":"waiting","project":"team-b","created_at":1800000002000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":500,"memory_mib":0,"mig":[]},"cpu_milli":500,"memory_bytes":52428800,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"run","run":0,"after":[],"array":null}','{"id":"01a3185c-57d0-74b7-be6f-d1ad12d6d416","name":"waiting","type":"Training","projectId":"team-b","projectName":"team-b","departmentId":"science","departmentName":"science","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":0.5,"cpu":0.5,"memoryBytes":52428800},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train","retries":6,"addresses":[]}','Pending','{"id":"01a3185c-57d0-74b7-be6f-d1ad12d6d416","run":0,"phase":"Pending","reason":"queued","detail":"waits for 0.5 GPUs","pool":null,"gpus_milli":0,"cpu_milli":0,"memory_bytes":0,"pods":[],"since":1800000007000,"failures":2,"next_try_at":1800000067000,"waiting_since":null}',0,0,NULL,NULL,NULL,'{"id":"01a3185c-57d0-74b7-be6f-d1ad12d6d416","name":"waiting","type":"Training","projectId":"team-b","projectName":"team-b","departmentId":"science","departmentName":"science","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":0.5,"cpu":0.5,"memoryBytes":52428800},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Pending","reason":"queued","phaseMessage":"waits for 0.5 GPUs","classicStatus":"Pending","desiredPhase":"Running","phaseSince":"2027-01-15T08:00:07.000Z","runningPods":0,"pendingPods":0,"failedTries":2,"retriesLeft":4,"nextTryAt":"2027-01-15T08:01:07.000Z","allocatedResources":{"gpu":0.0,"cpu":0.0,"memoryBytes":0},"currentNodes":[],"currentNodePools":[],"urls":[],"revision":14}',14);
INSERT INTO "workloads" VALUES('01a3185c-57d0-7068-870d-3667cbd30e51','done','team-a/done','team-a','default','752a6f31-900f-4cb3-8268-2605ab3c4965','Training','test@run.ai',1800000002000,1000,'run',0,'{"workloadId":"01a3185c-57d0-7068-870d-3667cbd30e51","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"},"storage":{"pvc":[{"claimName":"old","path":"/d","existingPvc":false,"claimInfo":{"size":"1Gi"}}]}}}','{"id":"01a3185c-57d0-7068-870d-3667cbd30e51","name":"done","project":"team-a","created_at":1800000002000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[{"target":"/d","source":"","claim":"old","read_only":false,"uploaded":false}],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"run","run":0,"after":[],"array":null}','{"id":"01a3185c-57d0-7068-870d-3667cbd30e51","name":"done","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train","retries":6,"addresses":[]}','Completed','{"id":"01a3185c-57d0-7068-870d-3667cbd30e51","run":0,"phase":"Completed","reason":null,"detail":"","pool":null,"gpus_milli":0,"cpu_milli":0,"memory_bytes":0,"pods":[{"id":"01a3185c-57d0-7068-870d-3667cbd30e51-0-0","index":0,"incarnation":0,"phase":"ended","node":"n1","devices":[],"started_at":null,"outcome":"ok","cause":null,"detail":"","exit_code":0,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}],"since":1800000007000,"failures":0,"next_try_at":null,"waiting_since":null}',0,0,NULL,1800000007000,NULL,'{"id":"01a3185c-57d0-7068-870d-3667cbd30e51","name":"done","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Completed","reason":"","phaseMessage":"","classicStatus":"Succeeded","desiredPhase":"Running","phaseSince":"2027-01-15T08:00:07.000Z","completedAt":"2027-01-15T08:00:07.000Z","runningPods":0,"pendingPods":0,"failedTries":0,"retriesLeft":6,"allocatedResources":{"gpu":0.0,"cpu":0.0,"memoryBytes":0},"currentNodes":[],"currentNodePools":[],"urls":[],"revision":15}',15);
INSERT INTO "workloads" VALUES('01a3185c-57d0-7317-86c5-92363d9d8153','gone-one',NULL,'team-a','default','752a6f31-900f-4cb3-8268-2605ab3c4965','Training','test@run.ai',1800000002000,1000,'delete',0,'{"workloadId":"01a3185c-57d0-7317-86c5-92363d9d8153","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"}}}','{"id":"01a3185c-57d0-7317-86c5-92363d9d8153","name":"gone-one","project":"team-a","created_at":1800000002000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"delete","run":0,"after":[],"array":null}','{"id":"01a3185c-57d0-7317-86c5-92363d9d8153","name":"gone-one","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train","retries":6,"addresses":[]}','Deleted','{"id":"01a3185c-57d0-7317-86c5-92363d9d8153","run":0,"phase":"Running","reason":null,"detail":"","pool":"default","gpus_milli":1000,"cpu_milli":0,"memory_bytes":0,"pods":[{"id":"01a3185c-57d0-7317-86c5-92363d9d8153-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}],"since":1800000007000,"failures":0,"next_try_at":null,"waiting_since":null}',0,0,1800000007000,NULL,1800000012000,'{"id":"01a3185c-57d0-7317-86c5-92363d9d8153","name":"gone-one","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Deleted","reason":"","phaseMessage":"","classicStatus":"Deleted","desiredPhase":"Deleted","phaseSince":"2027-01-15T08:00:07.000Z","startedAt":"2027-01-15T08:00:07.000Z","runningPods":1,"pendingPods":0,"failedTries":0,"retriesLeft":6,"allocatedResources":{"gpu":0.0},"currentNodes":["n1"],"currentNodePools":["default"],"urls":[],"revision":33}',33);
INSERT INTO "workloads" VALUES('01a3185c-57d0-7ef7-8b70-edddb006f7a7','buried',NULL,'team-c/23','default','752a6f31-900f-4cb3-8268-2605ab3c4965','Training','test@run.ai',1800000002000,1000,'delete',0,'{"workloadId":"01a3185c-57d0-7ef7-8b70-edddb006f7a7","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"}}}','{"id":"01a3185c-57d0-7ef7-8b70-edddb006f7a7","name":"buried","project":"team-c","created_at":1800000002000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"delete","run":0,"after":[],"array":null}','{"id":"01a3185c-57d0-7ef7-8b70-edddb006f7a7","name":"buried","type":"Training","projectId":"team-c","projectName":"team-c","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train","retries":6,"addresses":[]}','Deleted','{"id":"01a3185c-57d0-7ef7-8b70-edddb006f7a7","run":0,"phase":"Running","reason":null,"detail":"","pool":"default","gpus_milli":1000,"cpu_milli":0,"memory_bytes":0,"pods":[{"id":"01a3185c-57d0-7ef7-8b70-edddb006f7a7-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}],"since":1800000007000,"failures":0,"next_try_at":null,"waiting_since":null}',0,0,1800000007000,NULL,1800000012000,'{"id":"01a3185c-57d0-7ef7-8b70-edddb006f7a7","name":"buried","type":"Training","projectId":"team-c","projectName":"team-c","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Deleted","reason":"","phaseMessage":"","classicStatus":"Deleted","desiredPhase":"Deleted","phaseSince":"2027-01-15T08:00:07.000Z","startedAt":"2027-01-15T08:00:07.000Z","runningPods":1,"pendingPods":0,"failedTries":0,"retriesLeft":6,"allocatedResources":{"gpu":0.0},"currentNodes":["n1"],"currentNodePools":["default"],"urls":[],"revision":34}',34);
INSERT INTO "workloads" VALUES('01a3185c-57d0-70f7-af46-3da6c76d97af','model','team-b/model','team-b','science','752a6f31-900f-4cb3-8268-2605ab3c4965','Inference','test@run.ai',1800000002000,1000,'run',0,'{"workloadId":"01a3185c-57d0-70f7-af46-3da6c76d97af","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"},"labels":{"team":"serving"},"servingPort":{"container":8000}}}','{"id":"01a3185c-57d0-70f7-af46-3da6c76d97af","name":"model","project":"team-b","created_at":1800000002000,"kind":"inference","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[["team","serving"]],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}},"leader":null,"arrangement":"replicas","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"run","run":0,"after":[],"array":null}','{"id":"01a3185c-57d0-70f7-af46-3da6c76d97af","name":"model","type":"Inference","projectId":"team-b","projectName":"team-b","departmentId":"science","departmentName":"science","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{"team":"serving"},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":false,"priorityClassName":"inference","priority":125,"source":"Other","modelKind":"inference","retries":null,"addresses":["http://127.0.0.1:8000"]}','Running','{"id":"01a3185c-57d0-70f7-af46-3da6c76d97af","run":0,"phase":"Running","reason":null,"detail":"","pool":"default","gpus_milli":1000,"cpu_milli":0,"memory_bytes":0,"pods":[{"id":"01a3185c-57d0-70f7-af46-3da6c76d97af-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}],"since":1800000007000,"failures":0,"next_try_at":null,"waiting_since":null}',1000,1,1800000007000,NULL,NULL,'{"id":"01a3185c-57d0-70f7-af46-3da6c76d97af","name":"model","type":"Inference","projectId":"team-b","projectName":"team-b","departmentId":"science","departmentName":"science","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{"team":"serving"},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":false,"priorityClassName":"inference","priority":125,"source":"Other","phase":"Running","reason":"","phaseMessage":"","classicStatus":"Running","desiredPhase":"Running","phaseSince":"2027-01-15T08:00:07.000Z","startedAt":"2027-01-15T08:00:07.000Z","runningPods":1,"pendingPods":0,"failedTries":0,"allocatedResources":{"gpu":1.0,"cpu":0.0,"memoryBytes":0},"currentNodes":["n1"],"currentNodePools":["default"],"urls":["http://127.0.0.1:8000"],"revision":18}',18);
INSERT INTO "workloads" VALUES('01a3185c-57d0-72a8-9fac-1a2e16ceaac4','leaving',NULL,'team-a','default','752a6f31-900f-4cb3-8268-2605ab3c4965','Training','test@run.ai',1800000002000,1000,'delete',0,'{"workloadId":"01a3185c-57d0-72a8-9fac-1a2e16ceaac4","createdBy":"test@run.ai","commandLine":"","spec":{"image":"quickstart","compute":{"gpu":"1"}}}','{"id":"01a3185c-57d0-72a8-9fac-1a2e16ceaac4","name":"leaving","project":"team-a","created_at":1800000002000,"kind":"train","template":{"shape":{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":1000,"memory_bytes":104857600,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"quickstart","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}},"leader":null,"arrangement":"together","pods":1,"minimum":null,"completions":null,"priority":null,"preemptible":null,"restart":null,"retries":null,"deadline_s":null,"ttl_s":null,"grace_s":30,"pools":[],"constraint":null,"want":"delete","run":0,"after":[],"array":null}','{"id":"01a3185c-57d0-72a8-9fac-1a2e16ceaac4","name":"leaving","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","modelKind":"train","retries":6,"addresses":[]}','Deleting','{"id":"01a3185c-57d0-72a8-9fac-1a2e16ceaac4","run":0,"phase":"Running","reason":null,"detail":"","pool":"default","gpus_milli":1000,"cpu_milli":0,"memory_bytes":0,"pods":[{"id":"01a3185c-57d0-72a8-9fac-1a2e16ceaac4-0-0","index":0,"incarnation":0,"phase":"running","node":"n1","devices":[],"started_at":1800000007000,"outcome":null,"cause":null,"detail":"","exit_code":null,"trouble":"","gpus_milli":0,"cpu_milli":0,"memory_bytes":0}],"since":1800000007000,"failures":0,"next_try_at":null,"waiting_since":null}',1000,1,1800000007000,NULL,NULL,'{"id":"01a3185c-57d0-72a8-9fac-1a2e16ceaac4","name":"leaving","type":"Training","projectId":"team-a","projectName":"team-a","departmentId":"default","departmentName":"default","clusterId":"752a6f31-900f-4cb3-8268-2605ab3c4965","submittedBy":"test@run.ai","labels":{},"createdAt":"2027-01-15T08:00:02.000Z","requestedPods":1,"workloadRequestedResources":{"gpu":1.0,"cpu":1.0,"memoryBytes":104857600},"images":["quickstart"],"preemptible":true,"priorityClassName":"train","priority":50,"source":"Other","phase":"Deleting","reason":"","phaseMessage":"","classicStatus":"Terminating","desiredPhase":"Deleted","phaseSince":"2027-01-15T08:00:07.000Z","startedAt":"2027-01-15T08:00:07.000Z","runningPods":1,"pendingPods":0,"failedTries":0,"retriesLeft":6,"allocatedResources":{"gpu":1.0,"cpu":0.0,"memoryBytes":0},"currentNodes":["n1"],"currentNodePools":["default"],"urls":[],"revision":32}',32);
CREATE INDEX ix_access_rules_subject_id ON access_rules (subject_id);
CREATE INDEX ix_audit_at ON audit (at);
CREATE INDEX ix_events_workload ON events (workload);
CREATE INDEX ix_idempotency_created_at ON idempotency (created_at);
CREATE INDEX ix_pods_workload ON pods (workload);
CREATE INDEX ix_projects_department ON projects (department);
CREATE INDEX ix_tokens_family ON tokens (family);
CREATE INDEX ix_tokens_subject_id ON tokens (subject_id);
CREATE INDEX ix_workloads_created_at ON workloads (created_at);
CREATE INDEX ix_workloads_gone_at ON workloads (gone_at) WHERE gone_at IS NOT NULL;
CREATE INDEX ix_workloads_there_created_at ON workloads (created_at, id) WHERE gone_at IS NULL;
CREATE INDEX ix_workloads_there_name ON workloads (name, id) WHERE gone_at IS NULL;
CREATE INDEX ix_workloads_there_phase_created_at ON workloads (phase, created_at, id) WHERE gone_at IS NULL;
CREATE INDEX ix_workloads_there_phase_name ON workloads (phase, name, id) WHERE gone_at IS NULL;
CREATE INDEX ix_workloads_there_project_created_at ON workloads (project, created_at, id) WHERE gone_at IS NULL;
CREATE INDEX ix_holdings_workload ON holdings (workload);
COMMIT;
