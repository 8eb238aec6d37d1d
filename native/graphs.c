/* Memory of graphs: a node that allocates reserves memory when its graph is launched or uploaded.
 *
 * How much a graph needs at once is read from its nodes when it is instantiated. It is refused there and at each launch
 * if it does not fit; afterwards the charge is what the device has reserved for graphs, as the driver reports it. Graphs
 * without such nodes, which are nearly all, cost one comparison. */
#include <pthread.h>
#include <stdlib.h>

#include "gpufrac.h"
#include "hooks.h"

OLDEST_VERSION(pthread_mutex_trylock);

enum { NODES_MAX = 1 << 16, DEPTH_MAX = 8 };
static const uint64_t GROWTH = 32 * MIB;

static _Atomic uint64_t charged[DEVICES_MAX]; /* written behind `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int with_memory; /* instantiated graphs that allocate */
/* The graph whose memory is still mapped, because no other was launched since; behind `lock`. */
static CUgraphExec launched_last[DEVICES_MAX];

/* --- what a graph needs ---------------------------------------------------------------------------------------------- */

struct live {
    CUdeviceptr address;
    uint64_t bytes;
    int row;
};

/* Blocks that are allocated and not yet freed while the nodes are walked in the order in which they were added. */
struct walk {
    struct live *live;
    size_t count, room;
    uint64_t now[DEVICES_MAX], peak[DEVICES_MAX];
};

static void add_block(struct walk *walk, CUgraphNode node) {
    CUmemAllocNodeParams of = {0};
    if (driver()->cuGraphMemAllocNodeGetParams(node, &of) != CUDA_SUCCESS || of.pool.location.type != LOCATION_DEVICE)
        return;
    int row = row_of_ordinal(of.pool.location.id);
    if (row < 0)
        return;
    if (walk->count == walk->room) {
        size_t room = walk->room != 0 ? walk->room * 2 : 16;
        struct live *grown = realloc(walk->live, room * sizeof *grown);
        if (grown == NULL)
            return;
        walk->live = grown;
        walk->room = room;
    }
    walk->live[walk->count++] = (struct live){of.address, of.bytes, row};
    if (__builtin_add_overflow(walk->now[row], of.bytes, &walk->now[row]))
        walk->now[row] = UINT64_MAX;
    if (walk->now[row] > walk->peak[row])
        walk->peak[row] = walk->now[row];
}

static void remove_block(struct walk *walk, CUgraphNode node) {
    CUdeviceptr address = 0;
    if (driver()->cuGraphMemFreeNodeGetParams(node, &address) != CUDA_SUCCESS)
        return;
    for (size_t i = 0; i < walk->count; i++) {
        if (walk->live[i].address != address)
            continue;
        walk->now[walk->live[i].row] -= walk->live[i].bytes;
        walk->live[i] = walk->live[--walk->count];
        return;
    }
}

static void walk_graph(struct walk *walk, CUgraph graph, int depth) {
    size_t count = 0;
    if (depth > DEPTH_MAX || driver()->cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || count == 0)
        return;
    if (count > NODES_MAX)
        count = NODES_MAX;
    CUgraphNode *nodes = calloc(count, sizeof *nodes);
    if (nodes == NULL || driver()->cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        int type = -1;
        CUgraph child = NULL;
        if (nodes[i] == NULL || driver()->cuGraphNodeGetType(nodes[i], &type) != CUDA_SUCCESS)
            continue;
        if (type == NODE_MEM_ALLOC)
            add_block(walk, nodes[i]);
        else if (type == NODE_MEM_FREE)
            remove_block(walk, nodes[i]);
        else if (type == NODE_CHILD_GRAPH && driver()->cuGraphChildGraphNodeGetGraph(nodes[i], &child) == CUDA_SUCCESS)
            walk_graph(walk, child, depth + 1);
    }
    free(nodes);
}

/* The device a graph allocates on, and how much at once; -1: on none of the share. Graphs that allocate on several
 * devices are charged for the one on which they need most. */
static int need_of(CUgraph graph, uint64_t *bytes) {
    const struct driver *has = driver();
    if (has->cuGraphGetNodes == NULL || has->cuGraphNodeGetType == NULL || has->cuGraphMemAllocNodeGetParams == NULL ||
        has->cuGraphMemFreeNodeGetParams == NULL || has->cuGraphChildGraphNodeGetGraph == NULL)
        return -1;
    struct walk walk = {0};
    walk_graph(&walk, graph, 0);
    free(walk.live);
    int most = -1;
    for (int row = 0; row < share_device_count(); row++)
        if (walk.peak[row] > 0 && (most < 0 || walk.peak[row] > walk.peak[most]))
            most = row;
    *bytes = most >= 0 ? walk.peak[most] : 0;
    return most;
}

/* --- charges: behind `lock` ------------------------------------------------------------------------------------------ */

static uint64_t attribute(int row, int which, uint64_t otherwise) {
    uint64_t value = 0;
    CUdevice ordinal = ordinal_of_row(row);
    CUresult (*ask)(CUdevice, int, void *) = driver()->cuDeviceGetGraphMemAttribute;
    return ordinal >= 0 && ask != NULL && ask(ordinal, which, &value) == CUDA_SUCCESS ? value : otherwise;
}

static void set_charge(int row) {
    uint64_t reserved = attribute(row, GRAPH_RESERVED_CURRENT, charged[row]);
    share_correct(row, charged[row], reserved);
    charged[row] = reserved;
}

static uint64_t growth_for(int row, uint64_t bytes) {
    uint64_t used = attribute(row, GRAPH_USED_CURRENT, charged[row]);
    uint64_t slack = charged[row] > used ? charged[row] - used : 0;
    return bytes > slack ? round_up(bytes - slack, GROWTH) : 0;
}

/* The driver counts the memory of a graph as used for as long as it is mapped, so also between two launches. */
static bool is_mapped(int row, uint64_t bytes, CUgraphExec exec) {
    return exec != NULL && exec == launched_last[row] && charged[row] >= bytes;
}

static bool charge_growth(int row, uint64_t bytes, CUgraphExec exec) {
    set_charge(row);
    if (is_mapped(row, bytes, exec))
        return true;
    uint64_t growth = growth_for(row, bytes);
    bool fits = growth == 0 || share_charge(row, growth);
    CUresult (*trim)(CUdevice) = real_function(HOOK_cuDeviceGraphMemTrim);
    if (!fits && trim != NULL && trim(ordinal_of_row(row)) == CUDA_SUCCESS) {
        launched_last[row] = NULL;
        set_charge(row);
        growth = growth_for(row, bytes);
        fits = growth == 0 || share_charge(row, growth);
    }
    if (fits)
        charged[row] += growth;
    return fits;
}

void graphs_refresh(int row) {
    if (atomic_load(&with_memory) == 0 && charged[row] == 0)
        return;
    if (pthread_mutex_trylock(&lock) != 0)
        return;
    set_charge(row);
    pthread_mutex_unlock(&lock);
}

void graphs_after_fork(void) {
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    atomic_store(&with_memory, 0);
    for (int row = 0; row < DEVICES_MAX; row++) {
        charged[row] = 0;
        launched_last[row] = NULL;
    }
}

/* --- hooks ----------------------------------------------------------------------------------------------------------- */

/* Around a call that may reserve `bytes`: CALL is the driver's; EXEC is what it launches, or NULL. */
#define WITH_MEMORY(ROW, BYTES, EXEC, RESULT, CALL)    \
    do {                                               \
        pthread_mutex_lock(&lock);                     \
        change_begins();                               \
        if (charge_growth(ROW, BYTES, EXEC)) {         \
            RESULT = CALL;                             \
            set_charge(ROW);                           \
            if (EXEC != NULL)                          \
                launched_last[ROW] = RESULT == CUDA_SUCCESS ? EXEC : NULL; \
            if (RESULT == CUDA_ERROR_OUT_OF_MEMORY)    \
                share_count_driver_refusal(ROW);       \
        } else {                                       \
            share_count_refusal(ROW, BYTES);           \
            RESULT = CUDA_ERROR_OUT_OF_MEMORY;         \
        }                                              \
        change_ends();                                 \
        pthread_mutex_unlock(&lock);                   \
    } while (0)

#define INSTANTIATE(EXEC, GRAPH, CALL)                                                                   \
    do {                                                                                                 \
        uint64_t bytes = 0;                                                                              \
        int row = share_enforces() && EXEC != NULL && GRAPH != NULL ? need_of(GRAPH, &bytes) : -1;       \
        if (row < 0)                                                                                     \
            return CALL;                                                                                 \
        CUresult result;                                                                                 \
        WITH_MEMORY(row, bytes, (CUgraphExec)NULL, result, CALL);                                        \
        if (result == CUDA_SUCCESS) {                                                                    \
            blocks_put(&(struct block){.key = (uint64_t) * EXEC, .other = bytes, .row = (int16_t)row,    \
                                       .kind = BLOCK_GRAPH, .references = 1});                           \
            atomic_fetch_add(&with_memory, 1);                                                           \
        }                                                                                                \
        return result;                                                                                   \
    } while (0)

#define REAL(name, ...)                                         \
    CUresult (*real)(__VA_ARGS__) = real_function(HOOK_##name); \
    if (real == NULL)                                           \
        return CUDA_ERROR_NOT_FOUND

EXPORTED CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t size) {
    REAL(cuGraphInstantiate, CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
    INSTANTIATE(exec, graph, real(exec, graph, error, log, size));
}

EXPORTED CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t size) {
    REAL(cuGraphInstantiate_v2, CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
    INSTANTIATE(exec, graph, real(exec, graph, error, log, size));
}

EXPORTED CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    REAL(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long);
    INSTANTIATE(exec, graph, real(exec, graph, flags));
}

EXPORTED CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params) {
    REAL(cuGraphInstantiateWithParams, CUgraphExec *, CUgraph, void *);
    INSTANTIATE(exec, graph, real(exec, graph, params));
}

EXPORTED CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *params) {
    REAL(cuGraphInstantiateWithParams_ptsz, CUgraphExec *, CUgraph, void *);
    INSTANTIATE(exec, graph, real(exec, graph, params));
}

EXPORTED CUresult cuGraphExecDestroy(CUgraphExec exec) {
    REAL(cuGraphExecDestroy, CUgraphExec);
    struct block block;
    bool is_known = atomic_load(&with_memory) != 0 && blocks_take(BLOCK_GRAPH, (uint64_t)exec, &block);
    if (is_known) { /* its address may come back for another one */
        pthread_mutex_lock(&lock);
        launched_last[block.row] = NULL;
        pthread_mutex_unlock(&lock);
    }
    CUresult result = real(exec);
    if (is_known && result == CUDA_SUCCESS)
        atomic_fetch_sub(&with_memory, 1);
    else if (is_known)
        blocks_put(&block);
    return result;
}

static bool allocates(CUgraphExec exec, struct block *block) {
    return atomic_load_explicit(&with_memory, memory_order_relaxed) != 0 &&
           blocks_find(BLOCK_GRAPH, (uint64_t)exec, block);
}

#define RUN(name)                                                  \
    EXPORTED CUresult name(CUgraphExec exec, CUstream stream) {    \
        REAL(name, CUgraphExec, CUstream);                         \
        struct block block;                                        \
        if (!allocates(exec, &block))                              \
            return real(exec, stream);                             \
        CUresult result;                                           \
        WITH_MEMORY(block.row, block.other, exec, result, real(exec, stream)); \
        return result;                                             \
    }

RUN(cuGraphUpload)
RUN(cuGraphUpload_ptsz)
RUN(cuGraphLaunch)
RUN(cuGraphLaunch_ptsz)

EXPORTED CUresult cuDeviceGraphMemTrim(CUdevice ordinal) {
    REAL(cuDeviceGraphMemTrim, CUdevice);
    CUresult result = real(ordinal);
    int row = share_enforces() ? row_of_ordinal(ordinal) : -1;
    if (row >= 0) {
        pthread_mutex_lock(&lock);
        launched_last[row] = NULL;
        set_charge(row);
        pthread_mutex_unlock(&lock);
    }
    return result;
}
