/* A CUDA driver and NVML without a GPU: built once as libcuda.so.1 (-DAS_CUDA) and once as libnvidia-ml.so.1.
 *
 * Processes share their fake cards through the file STUB_STATE, so that a test sees what all of them have, and what a
 * killed process had is free again. Blocks above 1 MiB take multiples of 2 MiB, pools grow by 32 MiB, a context takes
 * 100 MiB: enough of the real driver's habits to be wrong about. STUB_DEVICES lists the cards in the order in which CUDA
 * shows them; NVML always has its own order. With STUB_OTHER_ADDRESSES cuGetProcAddress returns addresses that are not
 * exported. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_types.h"

#define DRIVER __attribute__((visibility("default")))
#define MIB (1ULL << 20)
enum { CARDS = 4, ROWS = 512, BLOCKS = 1 << 15, CONTEXT_MIB = 100, TOTAL_MIB = 10000 };

struct row {
    _Atomic int pid;
    _Atomic uint64_t used[CARDS];
};

static struct row *state(void) {
    static _Atomic(struct row *) mapped;
    struct row *found = atomic_load(&mapped);
    if (found != NULL)
        return found;
    const char *path = getenv("STUB_STATE");
    int fd = open(path != NULL ? path : "/dev/null", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || (lseek(fd, 0, SEEK_END) == 0 && ftruncate(fd, sizeof(struct row) * ROWS) != 0))
        abort();
    void *memory = mmap(NULL, sizeof(struct row) * ROWS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        abort();
    atomic_store(&mapped, memory);
    return memory;
}

static int lives(int pid) {
    return pid != 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

static uint64_t used_of(int card) {
    uint64_t total = 0;
    for (int i = 0; i < ROWS; i++)
        if (lives(atomic_load(&state()[i].pid)))
            total += atomic_load(&state()[i].used[card]);
    return total;
}

#ifdef AS_CUDA
/* ------------------------------------------------------------------------------------------------ libcuda.so.1 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum kind { FREED, LINEAR, FROM_POOL, HANDLE, ARRAY, MIPMAP };
struct block {
    uint64_t key, bytes;
    int card, references;
    enum kind kind;
    void *owner;
};
static struct block blocks[BLOCKS];
static uint64_t next_key = 0x7f0000000000ULL;

struct mapping {
    uint64_t address, size, handle;
};
static struct mapping mappings[4096];

struct pool {
    int card;
    uint64_t reserved, used;
};
static struct pool default_pools[CARDS], graph_pools[CARDS];
static struct pool *current_pools[CARDS];

struct context {
    int card, references;
};
static struct context primary[CARDS];
static __thread struct context *current;

static struct row *own(void) {
    static _Atomic(struct row *) mine;
    static _Atomic int of;
    struct row *found = atomic_load(&mine);
    if (found != NULL && atomic_load(&of) == getpid())
        return found;
    for (int i = 0; i < ROWS; i++) {
        int before = atomic_load(&state()[i].pid);
        if (!lives(before) && atomic_compare_exchange_strong(&state()[i].pid, &before, getpid())) {
            for (int card = 0; card < CARDS; card++)
                atomic_store(&state()[i].used[card], 0);
            atomic_store(&of, getpid());
            atomic_store(&mine, &state()[i]);
            return &state()[i];
        }
    }
    abort();
}

static int card_of(int ordinal) {
    const char *order = getenv("STUB_DEVICES"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible != NULL && visible[0] != '\0') { /* UUIDs, whose last digit is the card */
        for (; ordinal > 0 && visible != NULL; ordinal--)
            visible = strchr(visible, ',') != NULL ? strchr(visible, ',') + 1 : NULL;
        return visible != NULL && ordinal == 0 ? visible[strcspn(visible, ",") - 1] - '0' : -1;
    }
    if (order == NULL)
        order = "0";
    if (ordinal < 0 || ordinal >= (int)strlen(order))
        return -1;
    return order[ordinal] - '0';
}

static uint64_t real_bytes(uint64_t bytes) {
    return bytes > MIB ? (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB) : bytes;
}

static CUresult take(int card, uint64_t bytes) {
    if (bytes > TOTAL_MIB * MIB || used_of(card) + bytes > TOTAL_MIB * MIB)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_fetch_add(&own()->used[card], bytes);
    return CUDA_SUCCESS;
}

static void give(int card, uint64_t bytes) {
    atomic_fetch_sub(&own()->used[card], bytes);
}

static struct block *find(uint64_t key) {
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].kind != FREED && blocks[i].key == key)
            return &blocks[i];
    return NULL;
}

static uint64_t put(enum kind kind, int card, uint64_t bytes, void *owner) {
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].kind != FREED)
            continue;
        uint64_t key = next_key;
        next_key += (bytes + 4 * MIB) & ~(2 * MIB - 1);
        blocks[i] = (struct block){key, bytes, card, 1, kind, owner};
        return key;
    }
    abort();
}

static CUresult allocate(uint64_t *key, uint64_t bytes, enum kind kind) {
    pthread_mutex_lock(&lock);
    CUresult result = current == NULL ? 201 : bytes == 0 ? 1 : take(current->card, real_bytes(bytes));
    if (result == CUDA_SUCCESS)
        *key = put(kind, current->card, real_bytes(bytes), current);
    pthread_mutex_unlock(&lock);
    return result;
}

static struct pool *pool_of(int card) {
    return current_pools[card];
}

__attribute__((constructor)) static void prepare(void) {
    for (int card = 0; card < CARDS; card++) {
        default_pools[card].card = graph_pools[card].card = card;
        current_pools[card] = &default_pools[card];
    }
    if (getenv("STUB_LOOKS_UP") != NULL) /* like a driver that is wrapped by another library */
        dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "cuMemAlloc_v2");
}

static CUresult grow(struct pool *pool, uint64_t bytes) {
    if (pool->used + bytes > pool->reserved) {
        uint64_t more = (pool->used + bytes - pool->reserved + 32 * MIB - 1) / (32 * MIB) * (32 * MIB);
        if (take(pool->card, more) != CUDA_SUCCESS)
            return CUDA_ERROR_OUT_OF_MEMORY;
        pool->reserved += more;
    }
    pool->used += bytes;
    return CUDA_SUCCESS;
}

static void trim(struct pool *pool, uint64_t keep) {
    uint64_t least = (pool->used + 32 * MIB - 1) / (32 * MIB) * (32 * MIB);
    least = least > keep ? least : keep;
    if (pool->reserved > least) {
        give(pool->card, pool->reserved - least);
        pool->reserved = least;
    }
}

static CUresult release_block(uint64_t key, enum kind kind, enum kind or_kind) {
    pthread_mutex_lock(&lock);
    struct block *block = find(key);
    CUresult result = block != NULL && (block->kind == kind || block->kind == or_kind) ? CUDA_SUCCESS : 1;
    if (result == CUDA_SUCCESS) {
        if (block->kind == FROM_POOL)
            ((struct pool *)block->owner)->used -= block->bytes;
        else
            give(block->card, block->bytes);
        block->kind = FREED;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

DRIVER CUresult cuInit(unsigned flags) {
    (void)flags;
    own();
    return 0;
}
DRIVER CUresult cuDeviceGetCount(int *count) {
    for (*count = 0; card_of(*count) >= 0; ++*count) {
    }
    return 0;
}
DRIVER CUresult cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return card_of(ordinal) < 0 ? 101 : 0;
}
DRIVER CUresult cuDeviceGetUuid_v2(CUuuid *uuid, int ordinal) {
    memset(uuid, 0, sizeof *uuid);
    uuid->bytes[15] = (unsigned char)card_of(ordinal);
    return card_of(ordinal) < 0 ? 101 : 0;
}
DRIVER CUresult cuDeviceTotalMem_v2(size_t *total, int ordinal) {
    *total = TOTAL_MIB * MIB;
    return card_of(ordinal) < 0 ? 101 : 0;
}

static struct context *make_context(int card) {
    return take(card, CONTEXT_MIB * MIB) == CUDA_SUCCESS ? malloc(sizeof(struct context)) : NULL;
}
DRIVER CUresult cuDevicePrimaryCtxRetain(CUcontext *context, int ordinal) {
    int card = card_of(ordinal);
    if (card < 0)
        return 101;
    pthread_mutex_lock(&lock);
    CUresult result = primary[card].references > 0 ? 0 : take(card, CONTEXT_MIB * MIB);
    if (result == CUDA_SUCCESS) {
        primary[card].card = card;
        primary[card].references++;
        *context = &primary[card];
    }
    pthread_mutex_unlock(&lock);
    return result;
}
static void end_context(struct context *context) {
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].kind == FREED || blocks[i].owner != context)
            continue;
        give(blocks[i].card, blocks[i].bytes);
        blocks[i].kind = FREED;
    }
    give(context->card, CONTEXT_MIB * MIB);
    if (current == context)
        current = NULL;
}
DRIVER CUresult cuDevicePrimaryCtxReset_v2(int ordinal) {
    int card = card_of(ordinal);
    pthread_mutex_lock(&lock);
    if (primary[card].references > 0)
        end_context(&primary[card]);
    primary[card].references = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}
DRIVER CUresult cuDevicePrimaryCtxRelease_v2(int ordinal) {
    int card = card_of(ordinal);
    pthread_mutex_lock(&lock);
    CUresult result = primary[card].references > 0 ? 0 : 201;
    if (result == 0 && --primary[card].references == 0)
        end_context(&primary[card]);
    pthread_mutex_unlock(&lock);
    return result;
}
DRIVER CUresult cuDevicePrimaryCtxGetState(int ordinal, unsigned *flags, int *is_active) {
    *flags = 0;
    *is_active = primary[card_of(ordinal)].references > 0;
    return 0;
}
DRIVER CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, int ordinal) {
    (void)flags;
    pthread_mutex_lock(&lock);
    struct context *made = make_context(card_of(ordinal));
    pthread_mutex_unlock(&lock);
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->card = card_of(ordinal);
    *context = current = made;
    return 0;
}
DRIVER CUresult cuCtxDestroy_v2(CUcontext context) {
    pthread_mutex_lock(&lock);
    end_context(context);
    pthread_mutex_unlock(&lock);
    free(context);
    return 0;
}
DRIVER CUresult cuCtxSetCurrent(CUcontext context) {
    current = context;
    return 0;
}
DRIVER CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = current;
    return 0;
}
DRIVER CUresult cuCtxGetDevice(int *ordinal) {
    for (*ordinal = 0; current != NULL && card_of(*ordinal) != current->card; ++*ordinal) {
    }
    return current == NULL ? 201 : 0;
}
DRIVER CUresult cuCtxSynchronize(void) {
    return 0;
}

DRIVER CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    uint64_t key;
    CUresult result = allocate(&key, size, LINEAR);
    if (result == 0)
        *address = key;
    return result;
}
DRIVER CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags) {
    (void)flags;
    return cuMemAlloc_v2(address, size);
}
DRIVER CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    (void)element;
    *pitch = (width + 511) / 512 * 512;
    return cuMemAlloc_v2(address, *pitch * height);
}
DRIVER CUresult cuMemFree_v2(CUdeviceptr address) {
    return release_block(address, LINEAR, FROM_POOL);
}
DRIVER CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    if (current == NULL)
        return 201;
    *total = TOTAL_MIB * MIB; /* like the driver, it does not check for NULL */
    *free_bytes = *total - used_of(current->card);
    return 0;
}

DRIVER CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, int ordinal) {
    pool_of(card_of(ordinal));
    *pool = &default_pools[card_of(ordinal)];
    return 0;
}
DRIVER CUresult cuDeviceGetMemPool(CUmemoryPool *pool, int ordinal) {
    *pool = pool_of(card_of(ordinal));
    return 0;
}
DRIVER CUresult cuDeviceSetMemPool(int ordinal, CUmemoryPool pool) {
    current_pools[card_of(ordinal)] = pool;
    return 0;
}
DRIVER CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    struct pool *made = calloc(1, sizeof *made);
    made->card = card_of(properties->location.id);
    *pool = made;
    return 0;
}
DRIVER CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    pthread_mutex_lock(&lock);
    struct pool *ended = pool;
    give(ended->card, ended->reserved);
    pthread_mutex_unlock(&lock);
    free(ended);
    return 0;
}
DRIVER CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    pthread_mutex_lock(&lock);
    trim(pool, keep);
    pthread_mutex_unlock(&lock);
    return 0;
}
DRIVER CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int which, void *value) {
    pthread_mutex_lock(&lock);
    struct pool *asked = pool;
    *(uint64_t *)value = which == POOL_RESERVED_CURRENT ? asked->reserved : asked->used;
    pthread_mutex_unlock(&lock);
    return 0;
}
static CUresult allocate_in(CUdeviceptr *address, size_t size, struct pool *pool) {
    pthread_mutex_lock(&lock);
    CUresult result = grow(pool, size);
    if (result == 0)
        *address = put(FROM_POOL, pool->card, size, pool);
    pthread_mutex_unlock(&lock);
    return result;
}
DRIVER CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream) {
    (void)stream;
    return current == NULL ? 201 : allocate_in(address, size, pool_of(current->card));
}
DRIVER CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t size, CUstream stream) {
    return cuMemAllocAsync(address, size, stream);
}
DRIVER CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream) {
    (void)stream;
    return allocate_in(address, size, pool);
}
DRIVER CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    (void)stream;
    return release_block(address, FROM_POOL, LINEAR);
}
DRIVER CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    *status = stream == (CUstream)77; /* the one stream that captures */
    return 0;
}
DRIVER CUresult cuStreamIsCapturing_ptsz(CUstream stream, int *status) {
    return cuStreamIsCapturing(stream, status);
}

DRIVER CUresult cuMemCreate(CUmemHandle *handle, size_t size, const CUmemAllocationProp *properties,
                            unsigned long long flags) {
    (void)flags;
    if (properties->location.type != LOCATION_DEVICE) {
        *handle = 1;
        return 0;
    }
    if (card_of(properties->location.id) < 0)
        return 101;
    pthread_mutex_lock(&lock);
    CUresult result = take(card_of(properties->location.id), size);
    if (result == 0)
        *handle = put(HANDLE, card_of(properties->location.id), size, NULL);
    pthread_mutex_unlock(&lock);
    return result;
}
static CUresult drop_handle(uint64_t handle) {
    struct block *block = find(handle);
    if (block == NULL || block->kind != HANDLE)
        return 1;
    if (--block->references == 0) {
        give(block->card, block->bytes);
        block->kind = FREED;
    }
    return 0;
}
DRIVER CUresult cuMemRelease(CUmemHandle handle) {
    pthread_mutex_lock(&lock);
    CUresult result = drop_handle(handle);
    pthread_mutex_unlock(&lock);
    return result;
}
DRIVER CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemHandle handle, unsigned long long flags) {
    (void)offset, (void)flags;
    pthread_mutex_lock(&lock);
    struct block *block = find(handle);
    int i = 0;
    while (i < 4096 && mappings[i].size != 0)
        i++;
    CUresult result = block != NULL && i < 4096 ? 0 : 1;
    if (result == 0) {
        block->references++;
        mappings[i] = (struct mapping){address, size, handle};
    }
    pthread_mutex_unlock(&lock);
    return result;
}
DRIVER CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 4096; i++) {
        if (mappings[i].size == 0 || mappings[i].address < address || mappings[i].address >= address + size)
            continue;
        drop_handle(mappings[i].handle);
        mappings[i].size = 0;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
DRIVER CUresult cuMemRetainAllocationHandle(CUmemHandle *handle, void *address) {
    pthread_mutex_lock(&lock);
    CUresult result = 1;
    for (int i = 0; i < 4096 && result != 0; i++) {
        if (mappings[i].size != 0 && mappings[i].address == (uint64_t)address) {
            *handle = mappings[i].handle;
            find(*handle)->references++;
            result = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

DRIVER CUresult cuArrayCreate_v2(CUarray *array, const CUarrayDescriptor *of) {
    uint64_t key, rows_of = of->height != 0 ? of->height : 1;
    CUresult result = allocate(&key, of->width * rows_of * of->channels * 4, ARRAY);
    if (result == 0)
        *array = (void *)key;
    return result;
}
DRIVER CUresult cuArray3DCreate_v2(CUarray *array, const CUarray3DDescriptor *of) {
    uint64_t key, rows_of = of->height != 0 ? of->height : 1, layers = of->depth != 0 ? of->depth : 1;
    if (of->flags & ARRAY_DEFERRED_MAPPING) {
        *array = (void *)3;
        return 0;
    }
    CUresult result = allocate(&key, of->width * rows_of * layers * of->channels * 4, ARRAY);
    if (result == 0)
        *array = (void *)key;
    return result;
}
DRIVER CUresult cuArrayDestroy(CUarray array) {
    return release_block((uint64_t)array, ARRAY, ARRAY);
}
DRIVER CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUarray3DDescriptor *of, unsigned levels) {
    uint64_t key, bytes = 0;
    for (unsigned level = 0; level < levels; level++)
        bytes += (of->width >> level) * (of->height >> level) * of->channels * 4;
    CUresult result = allocate(&key, bytes, MIPMAP);
    if (result == 0)
        *array = (void *)key;
    return result;
}
DRIVER CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
    return release_block((uint64_t)array, MIPMAP, MIPMAP);
}

/* Graphs: a list of nodes that allocate or free. */
struct node {
    int type, card;
    uint64_t bytes, address;
};
struct graph {
    struct node *nodes[64];
    size_t count;
};
struct exec {
    struct graph graph;
};
DRIVER CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    (void)flags;
    *graph = calloc(1, sizeof(struct graph));
    return 0;
}
DRIVER CUresult cuGraphDestroy(CUgraph graph) {
    free(graph);
    return 0;
}
static struct node *add_node(struct graph *graph, struct node of) {
    struct node *node = malloc(sizeof *node);
    *node = of;
    return graph->nodes[graph->count++] = node;
}
DRIVER CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                       CUmemAllocNodeParams *of) {
    (void)after, (void)count;
    pthread_mutex_lock(&lock);
    of->address = next_key;
    next_key += of->bytes + 4 * MIB;
    pthread_mutex_unlock(&lock);
    *node = add_node(graph, (struct node){NODE_MEM_ALLOC, card_of(of->pool.location.id), of->bytes, of->address});
    return 0;
}
DRIVER CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                      CUdeviceptr address) {
    (void)after, (void)count;
    *node = add_node(graph, (struct node){NODE_MEM_FREE, 0, 0, address});
    return 0;
}
DRIVER CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    struct graph *asked = graph;
    if (nodes == NULL)
        *count = asked->count;
    for (size_t i = 0; nodes != NULL && i < *count; i++)
        nodes[i] = i < asked->count ? asked->nodes[i] : NULL;
    return 0;
}
DRIVER CUresult cuGraphNodeGetType(CUgraphNode node, int *type) {
    *type = ((struct node *)node)->type;
    return 0;
}
DRIVER CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUmemAllocNodeParams *of) {
    struct node *asked = node;
    int ordinal = 0;
    while (card_of(ordinal) != asked->card)
        ordinal++;
    memset(of, 0, sizeof *of);
    of->pool.location = (CUmemLocation){LOCATION_DEVICE, ordinal};
    of->bytes = asked->bytes;
    of->address = asked->address;
    return 0;
}
DRIVER CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address) {
    *address = ((struct node *)node)->address;
    return 0;
}
DRIVER CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
    (void)node, (void)graph;
    return 1;
}
DRIVER CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    (void)flags;
    struct exec *made = calloc(1, sizeof *made);
    made->graph = *(struct graph *)graph;
    *exec = made;
    return 0;
}
DRIVER CUresult cuGraphExecDestroy(CUgraphExec exec) {
    free(exec);
    return 0;
}
DRIVER CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    (void)stream;
    struct graph *graph = &((struct exec *)exec)->graph;
    pthread_mutex_lock(&lock);
    CUresult result = 0;
    for (size_t i = 0; i < graph->count && result == 0; i++) {
        struct node *node = graph->nodes[i];
        struct pool *pool = &graph_pools[node->card];
        pool->card = node->card;
        if (node->type == NODE_MEM_ALLOC)
            result = grow(pool, node->bytes);
        for (size_t j = 0; node->type == NODE_MEM_FREE && j < i; j++)
            if (graph->nodes[j]->address == node->address && graph->nodes[j]->type == NODE_MEM_ALLOC)
                graph_pools[graph->nodes[j]->card].used -= graph->nodes[j]->bytes;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
DRIVER CUresult cuDeviceGetGraphMemAttribute(int ordinal, int which, void *value) {
    pthread_mutex_lock(&lock);
    struct pool *pool = &graph_pools[card_of(ordinal)];
    *(uint64_t *)value = pool->reserved; /* used: mapped by a graph, so also between its launches, as on an H200 */
    (void)which;
    pthread_mutex_unlock(&lock);
    return 0;
}
DRIVER CUresult cuDeviceGraphMemTrim(int ordinal) {
    pthread_mutex_lock(&lock);
    graph_pools[card_of(ordinal)].card = card_of(ordinal);
    if (getenv("STUB_GRAPHS_RUN") == NULL) /* else they are not ready yet, and keep their memory */
        trim(&graph_pools[card_of(ordinal)], 0);
    pthread_mutex_unlock(&lock);
    return 0;
}
DRIVER CUresult cuLaunchKernel(void) {
    return 0;
}

/* --- cuGetProcAddress: names without their suffix --------------------------------------------------------------- */

static CUresult another_alloc(CUdeviceptr *address, size_t size) {
    return cuMemAlloc_v2(address, size);
}
static CUresult another_free(CUdeviceptr address) {
    return cuMemFree_v2(address);
}
static CUresult another_launch(void) {
    return 0;
}
DRIVER CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);
static const struct {
    const char *name;
    int since, is_twin;
    void *function, *another;
} entries[] = {
    {"cuInit", 2000, 0, cuInit, cuInit},
    {"cuMemAlloc", 3020, 0, cuMemAlloc_v2, another_alloc},
    {"cuMemFree", 3020, 0, cuMemFree_v2, another_free},
    {"cuMemAllocAsync", 11020, 0, cuMemAllocAsync, cuMemAllocAsync},
    {"cuMemAllocAsync", 11020, 1, cuMemAllocAsync_ptsz, cuMemAllocAsync_ptsz},
    {"cuMemGetInfo", 3020, 0, cuMemGetInfo_v2, cuMemGetInfo_v2},
    {"cuLaunchKernel", 4000, 0, cuLaunchKernel, another_launch},
    {"cuCtxSynchronize", 2000, 0, cuCtxSynchronize, cuCtxSynchronize},
    {"cuGetProcAddress", 12000, 0, cuGetProcAddress_v2, cuGetProcAddress_v2},
};
DRIVER CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    *function = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        bool is_wanted = entries[i].is_twin == ((flags & 2) != 0) || *function == NULL;
        if (strcmp(entries[i].name, name) == 0 && entries[i].since <= version && is_wanted)
            *function = getenv("STUB_OTHER_ADDRESSES") != NULL ? entries[i].another : entries[i].function;
    }
    if (status != NULL)
        *status = *function == NULL;
    return *function != NULL ? 0 : CUDA_ERROR_NOT_FOUND;
}

#else
/* ------------------------------------------------------------------------------------------- libnvidia-ml.so.1 */

/* A handle is the address of one of these; NVML's order is 3, 2, 1, 0. */
static const char cards[CARDS];

static int card_of_handle(nvmlDevice device) {
    return (int)((const char *)device - cards);
}

DRIVER nvmlReturn nvmlInit_v2(void) {
    return getenv("STUB_NO_NVML") != NULL ? 9 : 0;
}
DRIVER nvmlReturn nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return nvmlInit_v2();
}
DRIVER const char *nvmlErrorString(nvmlReturn result) {
    (void)result;
    return "an error of the stub";
}
DRIVER nvmlReturn nvmlShutdown(void) {
    return 0;
}
DRIVER nvmlReturn nvmlDeviceGetCount_v2(unsigned *count) {
    *count = CARDS;
    return 0;
}
DRIVER nvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice *device) {
    *device = (void *)&cards[CARDS - 1 - index];
    return index < CARDS ? 0 : 2;
}
DRIVER nvmlReturn nvmlDeviceGetUUID(nvmlDevice device, char *uuid, unsigned room) {
    snprintf(uuid, room, "GPU-00000000-0000-0000-0000-00000000000%d", card_of_handle(device));
    return 0;
}
DRIVER nvmlReturn nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice *device) {
    *device = (void *)&cards[uuid[strlen(uuid) - 1] - '0'];
    return 0;
}
DRIVER nvmlReturn nvmlDeviceGetName(nvmlDevice device, char *name, unsigned room) {
    (void)device;
    snprintf(name, room, "Stub");
    return 0;
}
DRIVER nvmlReturn nvmlDeviceGetMemoryInfo(nvmlDevice device, nvmlMemory *memory) {
    memory->total = TOTAL_MIB * MIB;
    memory->used = used_of(card_of_handle(device));
    memory->free = memory->total - memory->used;
    return 0;
}
DRIVER nvmlReturn nvmlDeviceGetMemoryInfo_v2(nvmlDevice device, nvmlMemory_v2 *memory) {
    nvmlMemory first;
    nvmlDeviceGetMemoryInfo(device, &first);
    memory->total = first.total, memory->used = first.used, memory->free = first.free, memory->reserved = MIB;
    return 0;
}
DRIVER nvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice device, unsigned *count, nvmlProcess *found) {
    unsigned there = 0, room = *count;
    int card = card_of_handle(device);
    for (int i = 0; i < ROWS; i++) {
        int pid = atomic_load(&state()[i].pid);
        uint64_t used = atomic_load(&state()[i].used[card]);
        if (!lives(pid) || used == 0 || getenv("STUB_HIDES_PROCESSES") != NULL)
            continue;
        if (there < room && found != NULL)
            found[there] = (nvmlProcess){(unsigned)pid, used, ~0u, ~0u};
        there++;
    }
    *count = there;
    return there > room ? NVML_ERROR_INSUFFICIENT_SIZE : 0;
}
DRIVER nvmlReturn nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice device, unsigned *count, nvmlProcess *found) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, found);
}
#endif
