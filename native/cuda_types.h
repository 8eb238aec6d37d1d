/* What the library needs of NVIDIA's interfaces, declared here so that it builds without CUDA headers.
 *
 * Only types whose layout is part of the driver's binary interface. Handles are opaque pointers. */
#ifndef GPUFRAC_CUDA_TYPES_H
#define GPUFRAC_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1;
typedef unsigned long long CUmemHandle;
typedef void *CUcontext, *CUstream, *CUmemoryPool, *CUarray, *CUmipmappedArray, *CUgraph, *CUgraphNode, *CUgraphExec;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
};

enum { LOCATION_DEVICE = 1 }; /* CU_MEM_LOCATION_TYPE_DEVICE */
enum { POOL_RESERVED_CURRENT = 5, POOL_USED_CURRENT = 7 }; /* CU_MEMPOOL_ATTR_... */
enum { GRAPH_USED_CURRENT = 0, GRAPH_RESERVED_CURRENT = 2 }; /* CU_GRAPH_MEM_ATTR_... */
enum { NODE_CHILD_GRAPH = 4, NODE_MEM_ALLOC = 10, NODE_MEM_FREE = 11 }; /* CU_GRAPH_NODE_TYPE_... */
enum { ARRAY_SPARSE = 0x40, ARRAY_DEFERRED_MAPPING = 0x80 }; /* CUDA_ARRAY3D_... */

typedef struct {
    unsigned char bytes[16];
} CUuuid;

typedef struct {
    int type;
    int id;
} CUmemLocation;

typedef struct {
    int type;
    int handle_types;
    CUmemLocation location;
    void *win32;
    unsigned char flags[8];
} CUmemAllocationProp;

typedef struct {
    int alloc_type;
    int handle_types;
    CUmemLocation location;
    void *win32;
    size_t max_size;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

typedef struct {
    CUmemPoolProps pool;
    const void *access;
    size_t access_count;
    size_t bytes;
    CUdeviceptr address;
} CUmemAllocNodeParams;

typedef struct {
    size_t width, height;
    int format;
    unsigned int channels;
} CUarrayDescriptor;

typedef struct {
    unsigned int width, height;
    int format;
    unsigned int channels;
} CUarrayDescriptor_v1;

typedef struct {
    size_t width, height, depth;
    int format;
    unsigned int channels, flags;
} CUarray3DDescriptor;

typedef struct {
    unsigned int width, height, depth;
    int format;
    unsigned int channels, flags;
} CUarray3DDescriptor_v1;

typedef struct {
    unsigned int grid[3], block[3], shared_bytes;
    CUstream stream;
    /* attributes follow; they are passed on unread */
} CUlaunchConfig;

/* NVML */

typedef int nvmlReturn;
typedef void *nvmlDevice;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
};
#define NVML_VALUE_NOT_AVAILABLE (~0ULL)

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2;

typedef struct {
    unsigned int pid;
    unsigned long long used;
} nvmlProcess_v1;

typedef struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
} nvmlProcess;

typedef struct {
    unsigned int pid;
    unsigned long long time_stamp;
    unsigned int sm, memory, encoder, decoder;
} nvmlProcessSample;

_Static_assert(sizeof(CUmemPoolProps) == 88, "layout of CUmemPoolProps");
_Static_assert(offsetof(CUmemAllocNodeParams, bytes) == 104, "layout of CUDA_MEM_ALLOC_NODE_PARAMS");
_Static_assert(sizeof(nvmlProcess) == 24 && sizeof(nvmlProcess_v1) == 16, "layout of nvmlProcessInfo_t");
_Static_assert(sizeof(nvmlMemory_v2) == 40, "layout of nvmlMemory_v2_t");

#endif
