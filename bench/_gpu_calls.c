/* Calls of the CUDA driver, for bench/gpu_fractions.py: eight ways to allocate, the cost of a call, the cost of a start.
 *
 * Built with a C compiler alone. "Real" addresses are read from the driver's own symbol table, past any library that
 * is preloaded, so that blocks of calls with and without it alternate in one process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_types.h"

static void *cuda;
#define CALL(name, ...) ((CUresult(*)(__VA_ARGS__))dlsym(cuda, #name))
#define CHECK(call)                                                      \
    do {                                                                 \
        CUresult result_ = (call);                                       \
        if (result_ != 0) {                                              \
            fprintf(stderr, "%s:%d: error %d\n", __FILE__, __LINE__, result_); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *real_address(const char *name) {
    const struct link_map *map = cuda;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const uint32_t *hash = NULL;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB)
            names = (const char *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_GNU_HASH)
            hash = (const uint32_t *)entry->d_un.d_ptr;
    }
    const uint32_t *buckets = hash + 4 + hash[2] * 2, *chains = buckets + hash[0];
    for (uint32_t bucket = 0; bucket < hash[0]; bucket++) {
        for (uint32_t index = buckets[bucket]; index >= hash[1] && index != 0; index++) {
            if (strcmp(names + symbols[index].st_name, name) == 0 && symbols[index].st_value != 0)
                return (char *)map->l_addr + symbols[index].st_value;
            if (chains[index - hash[1]] & 1)
                break;
        }
    }
    return NULL;
}

static void open_device(int is_timed) {
    CUcontext context;
    double before = now_ns();
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(CALL(cuInit, unsigned)(0));
    double initialized = now_ns();
    CHECK(CALL(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)(&context, 0));
    double made = now_ns();
    CHECK(CALL(cuCtxSetCurrent, CUcontext)(context));
    CUdeviceptr address;
    CHECK(CALL(cuMemAlloc_v2, CUdeviceptr *, size_t)(&address, 4096));
    if (is_timed)
        printf("%.3f %.3f %.3f\n", (initialized - before) / 1e6, (made - initialized) / 1e6, (now_ns() - made) / 1e6);
}

/* One GiB; the result of the driver. */
static CUresult allocate(const char *kind) {
    static CUmemoryPool pool;
    const size_t gib = 1UL << 30;
    CUdeviceptr address;
    size_t pitch;
    void *array;
    CUmemHandle handle;
    CUmemPoolProps of_pool = {.alloc_type = 1, .location = {LOCATION_DEVICE, 0}};
    if (strcmp(kind, "linear") == 0)
        return CALL(cuMemAlloc_v2, CUdeviceptr *, size_t)(&address, gib);
    if (strcmp(kind, "pitched") == 0)
        return CALL(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned)(&address, &pitch, 32768, 32768, 4);
    if (strcmp(kind, "async") == 0)
        return CALL(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)(&address, gib, NULL);
    if (strcmp(kind, "pool") == 0) {
        if (pool == NULL)
            CHECK(CALL(cuMemPoolCreate, CUmemoryPool *, const CUmemPoolProps *)(&pool, &of_pool));
        return CALL(cuMemAllocFromPoolAsync, CUdeviceptr *, size_t, CUmemoryPool, CUstream)(&address, gib, pool, NULL);
    }
    if (strcmp(kind, "virtual") == 0) {
        CUmemAllocationProp of = {.type = 1, .location = {LOCATION_DEVICE, 0}};
        return CALL(cuMemCreate, CUmemHandle *, size_t, const CUmemAllocationProp *, unsigned long long)(&handle, gib, &of, 0);
    }
    if (strcmp(kind, "array") == 0) {
        CUarrayDescriptor of = {16384, 16384, 0x20, 1};
        return CALL(cuArrayCreate_v2, CUarray *, const CUarrayDescriptor *)(&array, &of);
    }
    if (strcmp(kind, "mipmap") == 0) {
        CUarray3DDescriptor of = {16384, 16384, 0, 0x20, 1, 0};
        return CALL(cuMipmappedArrayCreate, CUmipmappedArray *, const CUarray3DDescriptor *, unsigned)(&array, &of, 1);
    }
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUmemAllocNodeParams of = {.pool = of_pool, .bytes = gib};
    CHECK(CALL(cuGraphCreate, CUgraph *, unsigned)(&graph, 0));
    CHECK(CALL(cuGraphAddMemAllocNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUmemAllocNodeParams *)(
        &node, graph, NULL, 0, &of));
    CUresult result =
        CALL(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long)(&exec, graph, 0);
    if (result == 0)
        result = CALL(cuGraphLaunch, CUgraphExec, CUstream)(exec, NULL);
    return result != 0 ? result : CALL(cuCtxSynchronize, void)();
}

/* As many GiB as are given, at most 60; then waits, so that the caller can look at the device. */
static void fill(const char *kind) {
    int gib = 0;
    CUresult result = 0;
    while (gib < 60 && (result = allocate(kind)) == 0)
        gib++;
    CALL(cuCtxSynchronize, void)();
    size_t free_bytes = 0, total = 0;
    CALL(cuMemGetInfo_v2, size_t *, size_t *)(&free_bytes, &total);
    printf("%d %d %zu %zu\n", gib, result, free_bytes >> 20, total >> 20);
    fflush(stdout);
    getchar();
}

typedef CUresult (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                                    void **, void **);
static const char PTX[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() { ret; }\n";

static double time_launches(void *launch, void *kernel) {
    double before = now_ns();
    for (int i = 0; i < 200; i++)
        ((launch_function)launch)(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    double each = (now_ns() - before) / 200;
    CALL(cuCtxSynchronize, void)();
    return each;
}

static double time_pairs(void *allocate_it, void *free_it, size_t size, int is_async) {
    CUdeviceptr address;
    double before = now_ns();
    for (int i = 0; i < 200; i++) {
        if (is_async) {
            ((CUresult(*)(CUdeviceptr *, size_t, CUstream))allocate_it)(&address, size, NULL);
            ((CUresult(*)(CUdeviceptr, CUstream))free_it)(address, NULL);
        } else {
            ((CUresult(*)(CUdeviceptr *, size_t))allocate_it)(&address, size);
            ((CUresult(*)(CUdeviceptr))free_it)(address);
        }
    }
    double each = (now_ns() - before) / 200;
    if (is_async)
        CALL(cuCtxSynchronize, void)();
    return each;
}

static double time_info(void *ask) {
    size_t free_bytes, total;
    double before = now_ns();
    for (int i = 0; i < 50; i++)
        ((CUresult(*)(size_t *, size_t *))ask)(&free_bytes, &total);
    return (now_ns() - before) / 50;
}

/* Lines of: call, nanoseconds through the real address, nanoseconds as a program calls it. */
static void compare(int blocks) {
    void *module, *kernel;
    CUdeviceptr kept;
    CHECK(CALL(cuModuleLoadData, void **, const void *)(&module, PTX));
    CHECK(CALL(cuModuleGetFunction, void **, void *, const char *)(&kernel, module, "k"));
    CHECK(CALL(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)(&kept, 65536, NULL));
    static const char *const names[] = {"cuLaunchKernel", "cuMemAlloc_v2",  "cuMemFree_v2",
                                        "cuMemAllocAsync", "cuMemFreeAsync", "cuMemGetInfo_v2"};
    void *ways[2][6];
    for (int i = 0; i < 6; i++) {
        ways[0][i] = real_address(names[i]);
        ways[1][i] = dlsym(cuda, names[i]);
    }
    for (int i = 0; i < 20; i++)
        time_launches(ways[0][0], kernel);
    for (int block = 0; block < blocks; block++) {
        double times[4][2];
        for (int turn = 0; turn < 2; turn++) { /* which comes first alternates */
            int way = (turn + block) % 2;
            void **call = ways[way];
            times[0][way] = time_launches(call[0], kernel);
            times[1][way] = time_pairs(call[1], call[2], 4096, 0);
            times[2][way] = time_pairs(call[3], call[4], 65536, 1);
            times[3][way] = block % 8 == 0 ? time_info(call[5]) : 0;
        }
        printf("launch %.1f %.1f\npair %.1f %.1f\nasync %.1f %.1f\n", times[0][0], times[0][1], times[1][0], times[1][1],
               times[2][0], times[2][1]);
        if (block % 8 == 0)
            printf("info %.1f %.1f\n", times[3][0], times[3][1]);
    }
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "fill") == 0) {
        open_device(0);
        fill(words[2]);
    } else if (count == 3 && strcmp(words[1], "compare") == 0) {
        open_device(0);
        compare(atoi(words[2]));
    } else if (count == 2 && strcmp(words[1], "start") == 0) {
        open_device(1);
    } else {
        return 2;
    }
    return 0;
}
