/* The hooked names, and the driver's own functions behind them.
 *
 * Each row: the exported name, the name that cuGetProcAddress knows it by, the CUDA version in which that variant
 * appeared, and whether it is the twin for per-thread default streams. The last three are only used where the driver
 * returns other addresses than it exports; see interpose.c. Only what must be hooked is: every hook is a place to
 * crash, and a name that ages with the next toolkit. */
#ifndef GPUFRAC_HOOKS_H
#define GPUFRAC_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda_types.h"

#define CUDA_HOOKS(X)                                                         \
    X(cuInit, "cuInit", 2000, 0)                                              \
    X(cuGetProcAddress, "cuGetProcAddress", 11030, 0)                         \
    X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0)                      \
    X(cuMemAlloc, "cuMemAlloc", 2000, 0)                                      \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, 0)                                   \
    X(cuMemAllocPitch, "cuMemAllocPitch", 2000, 0)                            \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0)                         \
    X(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0)                        \
    X(cuMemFree, "cuMemFree", 2000, 0)                                        \
    X(cuMemFree_v2, "cuMemFree", 3020, 0)                                     \
    X(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0)                           \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 1)                      \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0)           \
    X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, 1)      \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0)                             \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 1)                        \
    X(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0)                           \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0)                         \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0)                           \
    X(cuMemPoolImportFromShareableHandle, "cuMemPoolImportFromShareableHandle", 11020, 0) \
    X(cuMemCreate, "cuMemCreate", 10020, 0)                                   \
    X(cuMemRelease, "cuMemRelease", 10020, 0)                                 \
    X(cuMemMap, "cuMemMap", 10020, 0)                                         \
    X(cuMemUnmap, "cuMemUnmap", 10020, 0)                                     \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0)   \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, 0) \
    X(cuArrayCreate, "cuArrayCreate", 2000, 0)                                \
    X(cuArrayCreate_v2, "cuArrayCreate", 3020, 0)                             \
    X(cuArray3DCreate, "cuArray3DCreate", 2000, 0)                            \
    X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0)                         \
    X(cuArrayDestroy, "cuArrayDestroy", 2000, 0)                              \
    X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0)              \
    X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, 0)            \
    X(cuGraphInstantiate, "cuGraphInstantiate", 10000, 0)                     \
    X(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, 0)                  \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0)   \
    X(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, 0) \
    X(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12000, 1) \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, 0)                     \
    X(cuGraphUpload, "cuGraphUpload", 11010, 0)                               \
    X(cuGraphUpload_ptsz, "cuGraphUpload", 11010, 1)                          \
    X(cuGraphLaunch, "cuGraphLaunch", 10000, 0)                               \
    X(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000, 1)                          \
    X(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, 0)                 \
    X(cuMemGetInfo, "cuMemGetInfo", 2000, 0)                                  \
    X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0)                               \
    X(cuDeviceTotalMem, "cuDeviceTotalMem", 2000, 0)                          \
    X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, 0)                       \
    X(cuCtxCreate, "cuCtxCreate", 2000, 0)                                    \
    X(cuCtxCreate_v2, "cuCtxCreate", 3020, 0)                                 \
    X(cuCtxCreate_v3, "cuCtxCreate", 11040, 0)                                \
    X(cuCtxCreate_v4, "cuCtxCreate", 12050, 0)                                \
    X(cuCtxDestroy, "cuCtxDestroy", 2000, 0)                                  \
    X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0)                               \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0)          \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, 0)        \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0)    \
    X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0)            \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0)

#define NVML_HOOKS(X)                                            \
    X(nvmlDeviceGetMemoryInfo, "", 0, 0)                         \
    X(nvmlDeviceGetMemoryInfo_v2, "", 0, 0)                      \
    X(nvmlDeviceGetComputeRunningProcesses, "", 0, 0)            \
    X(nvmlDeviceGetComputeRunningProcesses_v2, "", 0, 0)         \
    X(nvmlDeviceGetComputeRunningProcesses_v3, "", 0, 0)         \
    X(nvmlDeviceGetGraphicsRunningProcesses, "", 0, 0)           \
    X(nvmlDeviceGetGraphicsRunningProcesses_v2, "", 0, 0)        \
    X(nvmlDeviceGetGraphicsRunningProcesses_v3, "", 0, 0)        \
    X(nvmlDeviceGetMPSComputeRunningProcesses, "", 0, 0)         \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v2, "", 0, 0)      \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v3, "", 0, 0)      \
    X(nvmlDeviceGetProcessUtilization, "", 0, 0)

#define HOOKS(X) CUDA_HOOKS(X) NVML_HOOKS(X)

enum hook {
#define X(name, known_as, since, is_twin) HOOK_##name,
    HOOKS(X)
#undef X
        HOOK_COUNT
};

/* The driver's function behind a hook, of exactly that variant; NULL: this driver does not have it. */
void *real_function(enum hook hook);

/* Functions of the driver that are called and not hooked, each NULL where the driver does not have it: name, suffix of
 * the variant, arguments. */
#define DRIVER_FUNCTIONS(X)                                                             \
    X(cuCtxGetCurrent, "", (CUcontext *))                                               \
    X(cuCtxGetDevice, "", (CUdevice *))                                                 \
    X(cuDeviceGetUuid, "_v2", (CUuuid *, CUdevice))                                     \
    X(cuDevicePrimaryCtxGetState, "", (CUdevice, unsigned *, int *))                    \
    X(cuDeviceGetMemPool, "", (CUmemoryPool *, CUdevice))                               \
    X(cuDeviceGetDefaultMemPool, "", (CUmemoryPool *, CUdevice))                        \
    X(cuMemPoolGetAttribute, "", (CUmemoryPool, int, void *))                           \
    X(cuStreamIsCapturing, "", (CUstream, int *))                                       \
    X(cuStreamIsCapturing_ptsz, "", (CUstream, int *))                                  \
    X(cuDeviceGetGraphMemAttribute, "", (CUdevice, int, void *))                        \
    X(cuGraphGetNodes, "", (CUgraph, CUgraphNode *, size_t *))                          \
    X(cuGraphNodeGetType, "", (CUgraphNode, int *))                                     \
    X(cuGraphMemAllocNodeGetParams, "", (CUgraphNode, CUmemAllocNodeParams *))          \
    X(cuGraphMemFreeNodeGetParams, "", (CUgraphNode, CUdeviceptr *))                    \
    X(cuGraphChildGraphNodeGetGraph, "", (CUgraphNode, CUgraph *))

struct driver {
#define X(name, suffix, arguments) CUresult(*name) arguments;
    DRIVER_FUNCTIONS(X)
#undef X
};

/* Looked up at the first call; later calls are one comparison. */
extern struct driver driver_functions __attribute__((visibility("hidden")));
extern _Atomic bool has_driver_functions __attribute__((visibility("hidden")));
void find_driver(void);

static inline const struct driver *driver(void) {
    if (__builtin_expect(!atomic_load_explicit(&has_driver_functions, memory_order_acquire), 0))
        find_driver();
    return &driver_functions;
}

/* A function of NVML that is not hooked, or NULL. */
void *nvml_symbol(const char *name);

#endif
