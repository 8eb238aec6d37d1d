PRAGMA application_id = 1179667527;
PRAGMA user_version = 6;
BEGIN TRANSACTION;
CREATE TABLE events (
        number   INTEGER PRIMARY KEY,
        at       INTEGER NOT NULL,
        kind     TEXT NOT NULL,
        workload TEXT NOT NULL,
        pod      TEXT,
        node     TEXT,
        cause    TEXT NOT NULL,
        detail   TEXT NOT NULL
    , outcome TEXT, exit_code INTEGER);
INSERT INTO "events" VALUES(1,1700000000000,'created','frac05',NULL,NULL,'','',NULL,NULL);
INSERT INTO "events" VALUES(2,1700000000000,'ended','train','train-3-12','n1','time-limit','late','stopped',143);
CREATE TABLE lease (
        only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
        token      INTEGER NOT NULL,
        holder     TEXT NOT NULL,
        renewed_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL
    );
INSERT INTO "lease" VALUES(1,1,'them',1700000000000,1700000015000);
CREATE TABLE organization (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), body TEXT NOT NULL);
INSERT INTO "organization" VALUES(1,'{"queues":{"a":[{"id":"p","parent":"d","priority":100,"created_at":0,"gpu":{"quota":0,"limit":-1,"weight":1.0,"usage":0.0},"cpu":{"quota":-1,"limit":-1,"weight":1.0,"usage":0.0},"memory":{"quota":-1,"limit":-1,"weight":"inf","usage":0.0},"preempt_min_runtime_s":null,"reclaim_min_runtime_s":null,"over_quota":null,"gpu_limit_milli":-1}],"b":[{"id":"d","parent":null,"priority":100,"created_at":0,"gpu":{"quota":8000,"limit":-1,"weight":0.1,"usage":0.3333333333333333},"cpu":{"quota":-1,"limit":-1,"weight":1.0,"usage":0.0},"memory":{"quota":-1,"limit":-1,"weight":1.0,"usage":0.0},"preempt_min_runtime_s":null,"reclaim_min_runtime_s":null,"over_quota":null,"gpu_limit_milli":-1}]},"rules":{"p":{"interactive_limit_s":60,"training_limit_s":null},"q":{"interactive_limit_s":null,"training_limit_s":null}},"pools":[{"name":"default","label_key":"","label_value":"","gpu_placement":"binpack","cpu_placement":"binpack"},{"name":"a","label_key":"k","label_value":"v","gpu_placement":"binpack","cpu_placement":"binpack"}],"topologies":[{"name":"racks","levels":["zone","rack"]}],"marks":{"n1":{"cordoned":true,"taints":[{"key":"x","value":"","effect":"NoSchedule"}],"labels":[["a","b"]]}},"graces":{"most_s":3600,"eviction_s":60}}');
CREATE TABLE "pods" (
        id          TEXT NOT NULL PRIMARY KEY,
        workload    TEXT NOT NULL,
        "index"     INTEGER NOT NULL,
        incarnation INTEGER NOT NULL,
        "group"     TEXT NOT NULL,
        shape       TEXT NOT NULL,
        pod_set     TEXT NOT NULL,
        run         INTEGER NOT NULL,
        phase       TEXT NOT NULL,
        since       INTEGER NOT NULL,
        born_at     INTEGER NOT NULL,
        not_before  INTEGER NOT NULL,
        node        TEXT,
        devices     TEXT NOT NULL,
        boot_id     TEXT NOT NULL,
        promised_at INTEGER,
        nominated   TEXT,
        started_at  INTEGER,
        cause       TEXT,
        detail      TEXT NOT NULL,
        outcome     TEXT,
        exit_code   INTEGER,
        grace_s     INTEGER NOT NULL,
        attempts    INTEGER NOT NULL,
        retry_at    INTEGER NOT NULL
    , trouble TEXT NOT NULL DEFAULT '');
INSERT INTO "pods" VALUES('frac05-0-0','frac05',0,0,'frac05','{"gpu":{"devices":1,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":0,"memory_bytes":0,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true}','default',0,'waiting',1700000000000,1700000000000,0,NULL,'[]','',NULL,NULL,NULL,NULL,'',NULL,NULL,30,0,0,'');
INSERT INTO "pods" VALUES('train-3-12','train',3,12,'train','{"gpu":{"devices":2,"portion_milli":500,"memory_mib":0,"mig":[["nvidia.com/mig-3g.20gb",1]]},"cpu_milli":4000,"memory_bytes":1099511627776,"extended":[["rdma/hca",1]],"node_rules":[[{"key":"zone","operator":"In","values":["a","b"]},{"key":"ssd","operator":"Exists","values":[]}],[]],"tolerations":[{"key":"","value":null,"effect":null},{"key":"runai","value":"drain","effect":"NoExecute"}],"labels":[["app","n\u00e4ive \u2603 \u0000 ''\"\\"]],"near":[{"topology_key":"zone","labels":[["app","x"]]}],"apart":[],"schedulable":false}','workers',7,'ended',1700000000000,1700000000000,1,'n1','[0,7]','b',2,'n2',3,'time-limit','it''s  late','stopped',-9,0,2,4,'ErrImagePull: no such image');
CREATE TABLE progress (
        only_row          INTEGER PRIMARY KEY CHECK (only_row = 1),
        cursor            INTEGER,
        events_through    INTEGER NOT NULL,
        dropped_events    INTEGER NOT NULL
    , protocol INTEGER NOT NULL DEFAULT 2);
INSERT INTO "progress" VALUES(1,41,2,0,3);
CREATE TABLE specs (
        id          TEXT NOT NULL PRIMARY KEY,
        name        TEXT NOT NULL,
        project     TEXT NOT NULL,
        created_at  INTEGER NOT NULL,
        kind        TEXT NOT NULL,
        template    TEXT NOT NULL,
        leader      TEXT,
        arrangement TEXT NOT NULL,
        pods        INTEGER NOT NULL,
        minimum     INTEGER,
        completions INTEGER,
        priority    INTEGER,
        preemptible INTEGER,
        restart     TEXT,
        retries     INTEGER,
        deadline_s  INTEGER,
        ttl_s       INTEGER,
        grace_s     INTEGER NOT NULL,
        pools       TEXT NOT NULL,
        "constraint" TEXT,
        want        TEXT NOT NULL,
        run         INTEGER NOT NULL
    , after TEXT NOT NULL DEFAULT '[]', array TEXT);
INSERT INTO "specs" VALUES('frac05','frac05','vision',1700000000000,'train','{"shape":{"gpu":{"devices":0,"portion_milli":1000,"memory_mib":0,"mig":[]},"cpu_milli":0,"memory_bytes":0,"extended":[],"node_rules":[],"tolerations":[],"labels":[],"near":[],"apart":[],"schedulable":true},"program":{"image":"","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}}',NULL,'together',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,30,'[]',NULL,'run',0,'[]',NULL);
INSERT INTO "specs" VALUES('train','train','vision',1700000000000,'inference','{"shape":{"gpu":{"devices":2,"portion_milli":500,"memory_mib":0,"mig":[["nvidia.com/mig-3g.20gb",1]]},"cpu_milli":4000,"memory_bytes":1099511627776,"extended":[["rdma/hca",1]],"node_rules":[[{"key":"zone","operator":"In","values":["a","b"]},{"key":"ssd","operator":"Exists","values":[]}],[]],"tolerations":[{"key":"","value":null,"effect":null},{"key":"runai","value":"drain","effect":"NoExecute"}],"labels":[["app","n\u00e4ive \u2603 \u0000 ''\"\\"]],"near":[{"topology_key":"zone","labels":[["app","x"]]}],"apart":[],"schedulable":false},"program":{"image":"a:1","command":["python","-c",""],"arguments":[],"environment":[["KEY","half a pair: \ud800"]],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}}','{"shape":{"gpu":{"devices":2,"portion_milli":500,"memory_mib":0,"mig":[["nvidia.com/mig-3g.20gb",1]]},"cpu_milli":4000,"memory_bytes":1099511627776,"extended":[["rdma/hca",1]],"node_rules":[[{"key":"zone","operator":"In","values":["a","b"]},{"key":"ssd","operator":"Exists","values":[]}],[]],"tolerations":[{"key":"","value":null,"effect":null},{"key":"runai","value":"drain","effect":"NoExecute"}],"labels":[["app","n\u00e4ive \u2603 \u0000 ''\"\\"]],"near":[{"topology_key":"zone","labels":[["app","x"]]}],"apart":[],"schedulable":false},"program":{"image":"","command":[],"arguments":[],"environment":[],"working_dir":"","volumes":[],"tty":false,"stdin":false,"cpu_limit_milli":0,"memory_limit_bytes":0,"shm_bytes":0,"python_env":"","submitter_uid":null}}','replicas',4,2,3,-5,0,'always',0,1,2,3,'["a100","default"]','{"topology":"racks","required":"rack","preferred":null}','stop',7,'[]',NULL);
CREATE TABLE "workload_states" (
        workload     TEXT NOT NULL PRIMARY KEY,
        run          INTEGER NOT NULL,
        failures     INTEGER NOT NULL,
        halt         TEXT,
        active_since INTEGER,
        pool         TEXT,
        groups       TEXT NOT NULL,
        avoided      TEXT NOT NULL
    , refusals INTEGER NOT NULL DEFAULT 0, first_incarnation INTEGER NOT NULL DEFAULT 0, failure TEXT NOT NULL DEFAULT '', met TEXT NOT NULL DEFAULT '[]');
INSERT INTO "workload_states" VALUES('frac05',0,0,NULL,NULL,NULL,'[]','[]',0,0,'','[]');
INSERT INTO "workload_states" VALUES('train',7,1,'{"phase":"Failed","cause":"retries-used-up","at":1700000000000,"detail":"three times"}',1700000000000,'a100','[{"group":"train","started_at":1700000000000,"stale_since":null}]','[{"node":"n1","until":1700000000000}]',2,3,'failed with exit code 3','[]');
CREATE INDEX pods_by_workload ON pods (workload);
COMMIT;
