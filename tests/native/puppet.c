/* A program that uses CUDA as it is told on standard input, one command a line, and answers with one line each.
 * tests/native/conftest.py has the other end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_types.h"

#define MIB (1ULL << 20)

CUresult cuInit(unsigned);
CUresult cuDeviceTotalMem_v2(size_t *, CUdevice);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice);
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned);
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemPoolCreate(CUmemoryPool *, const CUmemPoolProps *);
CUresult cuMemPoolDestroy(CUmemoryPool);
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice);
CUresult cuMemCreate(CUmemHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
CUresult cuMemRelease(CUmemHandle);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemHandle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemRetainAllocationHandle(CUmemHandle *, void *);
CUresult cuArrayCreate_v2(CUarray *, const CUarrayDescriptor *);
CUresult cuArray3DCreate_v2(CUarray *, const CUarray3DDescriptor *);
CUresult cuArrayDestroy(CUarray);
CUresult cuMipmappedArrayCreate(CUmipmappedArray *, const CUarray3DDescriptor *, unsigned);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray);
CUresult cuGraphCreate(CUgraph *, unsigned);
CUresult cuGraphDestroy(CUgraph);
CUresult cuGraphAddMemAllocNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUmemAllocNodeParams *);
CUresult cuGraphAddMemFreeNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuDeviceGraphMemTrim(CUdevice);
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);
nvmlReturn nvmlInit_v2(void);
nvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned, nvmlDevice *);
nvmlReturn nvmlDeviceGetUUID(nvmlDevice, char *, unsigned);
nvmlReturn nvmlDeviceGetMemoryInfo(nvmlDevice, nvmlMemory *);
nvmlReturn nvmlDeviceGetMemoryInfo_v2(nvmlDevice, nvmlMemory_v2 *);
nvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice, unsigned *, nvmlProcess *);
nvmlReturn nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice, unsigned *, nvmlProcess *);

struct thing {
    char kind[16];
    uint64_t key, bytes;
};
static struct thing things[4096];
static int count;
static CUmemoryPool own_pool;
static CUcontext contexts[8];

static CUresult allocate_graph(struct thing *thing, int is_freed) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUmemAllocNodeParams of = {.pool.location = {LOCATION_DEVICE, 0}, .bytes = thing->bytes};
    cuGraphCreate(&graph, 0);
    cuGraphAddMemAllocNode(&node, graph, NULL, 0, &of);
    if (is_freed)
        cuGraphAddMemFreeNode(&node, graph, NULL, 0, of.address);
    CUresult result = cuGraphInstantiateWithFlags(&exec, graph, 0);
    if (result == 0)
        result = cuGraphLaunch(exec, NULL);
    for (int i = 0; result == 0 && strcmp(thing->kind, "again") == 0 && i < 20; i++)
        result = cuGraphLaunch(exec, NULL);
    thing->key = (uint64_t)exec;
    cuGraphDestroy(graph);
    return result;
}

static CUresult allocate(struct thing *thing) {
    const char *kind = thing->kind;
    CUdeviceptr address = 0;
    size_t pitch = 0, rows = thing->bytes / 4096;
    CUresult result = 1;
    if (strcmp(kind, "linear") == 0)
        result = cuMemAlloc_v2(&address, thing->bytes);
    else if (strcmp(kind, "pitched") == 0)
        result = cuMemAllocPitch_v2(&address, &pitch, 4096, rows, 4);
    else if (strcmp(kind, "managed") == 0)
        result = cuMemAllocManaged(&address, thing->bytes, 1);
    else if (strcmp(kind, "async") == 0)
        result = cuMemAllocAsync(&address, thing->bytes, NULL);
    else if (strcmp(kind, "captured") == 0)
        result = cuMemAllocAsync(&address, thing->bytes, (CUstream)77);
    else if (strcmp(kind, "pool") == 0) {
        CUmemPoolProps of = {.location = {LOCATION_DEVICE, 0}};
        if (own_pool == NULL)
            cuMemPoolCreate(&own_pool, &of);
        result = cuMemAllocFromPoolAsync(&address, thing->bytes, own_pool, NULL);
    } else if (strcmp(kind, "virtual") == 0 || strcmp(kind, "host") == 0) {
        CUmemAllocationProp of = {.location = {kind[0] == 'v' ? LOCATION_DEVICE : 2, kind[0] == 'v' ? 0 : 12345}};
        CUmemHandle handle = 0;
        result = cuMemCreate(&handle, thing->bytes, &of, 0);
        address = handle;
    } else if (strcmp(kind, "array") == 0) {
        CUarrayDescriptor of = {1024, rows, 0x20, 1};
        CUarray array = NULL;
        result = cuArrayCreate_v2(&array, &of);
        address = (uint64_t)array;
    } else if (strcmp(kind, "array3d") == 0 || strcmp(kind, "deferred") == 0) {
        CUarray3DDescriptor of = {1024, rows / 4, 4, 0x20, 1, kind[0] == 'd' ? ARRAY_DEFERRED_MAPPING : 0};
        CUarray array = NULL;
        result = cuArray3DCreate_v2(&array, &of);
        address = (uint64_t)array;
    } else if (strcmp(kind, "mipmap") == 0) {
        CUarray3DDescriptor of = {1024, rows, 0, 0x20, 1, 0};
        CUmipmappedArray array = NULL;
        result = cuMipmappedArrayCreate(&array, &of, 1);
        address = (uint64_t)array;
    } else if (strcmp(kind, "graph") == 0 || strcmp(kind, "passing") == 0 || strcmp(kind, "again") == 0) {
        return allocate_graph(thing, kind[0] != 'g');
    }
    thing->key = address;
    return result;
}

static CUresult release(struct thing *thing) {
    const char *kind = thing->kind;
    if (strcmp(kind, "async") == 0 || strcmp(kind, "pool") == 0)
        return cuMemFreeAsync(thing->key, NULL);
    if (strcmp(kind, "virtual") == 0)
        return cuMemRelease(thing->key);
    if (strncmp(kind, "array", 5) == 0)
        return cuArrayDestroy((CUarray)thing->key);
    if (strcmp(kind, "mipmap") == 0)
        return cuMipmappedArrayDestroy((CUmipmappedArray)thing->key);
    if (strcmp(kind, "graph") == 0 || strcmp(kind, "passing") == 0 || strcmp(kind, "again") == 0)
        return cuGraphExecDestroy((CUgraphExec)thing->key);
    return cuMemFree_v2(thing->key);
}

static int open_device(int ordinal) {
    CUresult result = cuInit(0);
    if (result == 0)
        result = cuDevicePrimaryCtxRetain(&contexts[ordinal], ordinal);
    if (result == 0)
        cuCtxSetCurrent(contexts[ordinal]);
    return result;
}

/* All ways to an address must lead to the same function. */
static int differing_ways(void) {
    static const char *const names[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocAsync", "cuMemAllocAsync_ptsz"};
    void *mine = (void *)cuMemAlloc_v2, *library = dlopen("libcuda.so.1", RTLD_LAZY), *asked = NULL;
    int differing = 0;
    differing += dlsym(library, "cuMemAlloc_v2") != mine;
    differing += dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != mine;
    differing += dlvsym(library, "cuMemAlloc_v2", "NO_SUCH_VERSION") != mine; /* the driver has no versions */
    differing += cuGetProcAddress_v2("cuMemAlloc", &asked, 12000, 0, NULL) != 0 || asked != mine;
    differing += dlsym(library, "cuNoSuchFunction") != NULL || dlerror() == NULL;
    differing += dlsym(library, "cuMemAlloc") != NULL; /* the stub has no first version: it must stay absent */
    void *twin = NULL;
    differing += cuGetProcAddress_v2("cuMemAllocAsync", &twin, 12000, 2, NULL) != 0 || twin != dlsym(library, names[3]);
    CUresult (*nested)(const char *, void **, int, uint64_t, int *) = NULL;
    differing += cuGetProcAddress_v2("cuGetProcAddress", (void **)&nested, 12000, 0, NULL) != 0;
    differing += nested == NULL || nested("cuMemFree", &asked, 12000, 0, NULL) != 0 || asked != (void *)cuMemFree_v2;
    differing += dlsym(RTLD_NEXT, "printf") == NULL;
    return differing;
}

static int refused_in_threads;
static unsigned long long thread_bytes;
static int thread_rounds;

static void *allocate_and_free(void *context) {
    cuCtxSetCurrent(context);
    for (int i = 0; i < thread_rounds; i++) {
        CUdeviceptr address;
        if ((i % 2 ? cuMemAlloc_v2(&address, thread_bytes) : cuMemAllocAsync(&address, thread_bytes, NULL)) != 0)
            __atomic_fetch_add(&refused_in_threads, 1, __ATOMIC_SEQ_CST);
        else
            cuMemFree_v2(address);
        if (i % 8 == 0)
            cuMemGetInfo_v2(NULL, NULL);
    }
    return NULL;
}

static int in_threads(int threads) {
    pthread_t ids[64];
    refused_in_threads = 0;
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, allocate_and_free, contexts[0]);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    CUmemoryPool pool;
    cuDeviceGetDefaultMemPool(&pool, 0);
    cuMemPoolTrimTo(pool, 0);
    return refused_in_threads;
}

static void show_nvml(unsigned index) {
    nvmlDevice device;
    nvmlMemory memory;
    nvmlMemory_v2 second;
    nvmlProcess processes[512];
    unsigned there = 512, drawing = 512, few = 0;
    char uuid[96];
    nvmlInit_v2();
    nvmlDeviceGetHandleByIndex_v2(index, &device);
    nvmlDeviceGetUUID(device, uuid, sizeof uuid);
    nvmlDeviceGetMemoryInfo(device, &memory);
    nvmlDeviceGetMemoryInfo_v2(device, &second);
    int short_result = nvmlDeviceGetComputeRunningProcesses_v3(device, &few, NULL);
    nvmlDeviceGetComputeRunningProcesses_v3(device, &there, processes);
    printf("%s %llu %llu %llu %llu %u %d", uuid + strlen(uuid) - 1, memory.total / MIB, memory.used / MIB, second.total / MIB,
           second.reserved, few, short_result);
    for (unsigned i = 0; i < there; i++)
        printf(" %u:%llu", processes[i].pid, processes[i].used / MIB);
    nvmlDeviceGetGraphicsRunningProcesses_v3(device, &drawing, processes);
    printf(" drawing:%u\n", drawing);
}

int main(void) {
    char line[256], kind[16];
    unsigned long long a, b;
    alarm(100); /* no test waits for ever */
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "open %llu", &a) == 1) {
            printf("%d\n", open_device((int)a));
        } else if (sscanf(line, "alloc %15s %llu", kind, &a) == 2 || sscanf(line, "bytes %15s %llu", kind, &a) == 2) {
            struct thing *thing = &things[count];
            snprintf(thing->kind, sizeof thing->kind, "%s", kind);
            thing->bytes = line[0] == 'a' ? a * MIB : a;
            CUresult result = allocate(thing);
            printf("%d\n", result);
            count += result == 0;
        } else if (sscanf(line, "fill %15s %llu", kind, &a) == 2) {
            CUresult result = 0;
            int before = count;
            while (result == 0 && count < 4096) {
                struct thing *thing = &things[count];
                snprintf(thing->kind, sizeof thing->kind, "%s", kind);
                thing->bytes = a * MIB;
                result = allocate(thing);
                count += result == 0;
            }
            printf("%d %d\n", result, count - before);
        } else if (strcmp(line, "free\n") == 0) {
            printf("%d\n", count > 0 ? release(&things[--count]) : -1);
        } else if (strcmp(line, "free all\n") == 0) {
            CUresult result = 0;
            while (count > 0)
                result |= release(&things[--count]);
            CUmemoryPool pool;
            cuDeviceGetDefaultMemPool(&pool, 0);
            cuMemPoolTrimTo(pool, 0);
            if (own_pool != NULL)
                cuMemPoolDestroy(own_pool);
            own_pool = NULL;
            printf("%d\n", result);
        } else if (strcmp(line, "free other\n") == 0) { /* with the call of another kind */
            struct thing *thing = &things[--count];
            printf("%d\n", strcmp(thing->kind, "linear") ? cuMemFree_v2(thing->key) : cuMemFreeAsync(thing->key, NULL));
        } else if (strcmp(line, "free unknown\n") == 0) {
            printf("%d\n", cuMemFree_v2(0xdead0000));
        } else if (strcmp(line, "map\n") == 0) { /* mapped twice, released, retained again */
            CUmemHandle handle = things[count - 1].key, again = 0;
            cuMemMap(0x600000000000ULL, things[count - 1].bytes, 0, handle, 0);
            cuMemMap(0x600000000000ULL + things[count - 1].bytes, things[count - 1].bytes, 0, handle, 0);
            cuMemRelease(handle);
            printf("%d\n", cuMemRetainAllocationHandle(&again, (void *)0x600000000000ULL));
            cuMemRelease(again);
            count--;
        } else if (sscanf(line, "unmap %llu", &a) == 1) {
            printf("%d\n", cuMemUnmap(0x600000000000ULL, a * MIB));
        } else if (strcmp(line, "info\n") == 0) {
            size_t free_bytes = 0, total = 0;
            CUresult result = cuMemGetInfo_v2(&free_bytes, &total);
            printf("%d %zu %zu\n", result, (size_t)(free_bytes / MIB), (size_t)(total / MIB));
        } else if (sscanf(line, "total %llu", &a) == 1) {
            size_t total = 0;
            CUresult result = cuDeviceTotalMem_v2(&total, (int)a);
            printf("%d %zu\n", result, (size_t)(total / MIB));
        } else if (strcmp(line, "context\n") == 0) {
            printf("%d\n", cuCtxCreate_v2(&contexts[7], 0, 0));
        } else if (strcmp(line, "end context\n") == 0) {
            printf("%d\n", cuCtxDestroy_v2(contexts[7]));
            cuCtxSetCurrent(contexts[0]);
            count = 0;
        } else if (strcmp(line, "reset\n") == 0) {
            printf("%d\n", cuDevicePrimaryCtxReset_v2(0));
            count = 0;
        } else if (strcmp(line, "trim graphs\n") == 0) {
            printf("%d\n", cuDeviceGraphMemTrim(0));
        } else if (strcmp(line, "ways\n") == 0) {
            printf("%d\n", differing_ways());
        } else if (sscanf(line, "threads %llu %d %llu", &a, &thread_rounds, &b) == 3) {
            thread_bytes = b * MIB;
            printf("%d\n", in_threads((int)a));
        } else if (sscanf(line, "nvml %llu", &a) == 1) {
            show_nvml((unsigned)a);
        } else if (strcmp(line, "fork\n") == 0) { /* the child starts over */
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                CUdeviceptr address;
                memset(contexts, 0, sizeof contexts);
                int result = open_device(1);
                result = result != 0 ? result : cuMemAlloc_v2(&address, 64 * MIB);
                _exit(result);
            }
            int status = -1;
            waitpid(child, &status, 0);
            printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
        } else {
            printf("unknown command\n");
        }
    }
    return 0;
}
