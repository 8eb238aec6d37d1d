/* Virtual memory management: physical memory is charged when its handle is created, and given back when neither a
 * reference nor a mapping is left. */
#include "gpufrac.h"
#include "hooks.h"

enum { STEP = 2 << 20 }; /* the least size of device memory that can be mapped */

static void release(uint64_t handle) {
    struct block block;
    if (blocks_release(BLOCK_HANDLE, handle, &block))
        share_discharge(block.row, block.bytes);
}

EXPORTED CUresult cuMemCreate(CUmemHandle *handle, size_t size, const CUmemAllocationProp *properties,
                              unsigned long long flags) {
    CUresult (*real)(CUmemHandle *, size_t, const CUmemAllocationProp *, unsigned long long) =
        real_function(HOOK_cuMemCreate);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    /* Memory of the host, which NCCL makes, has a location whose id is no device. */
    bool is_on_device = properties != NULL && properties->location.type == LOCATION_DEVICE;
    int row = is_on_device && handle != NULL && share_enforces() ? row_of_ordinal(properties->location.id) : -1;
    if (row < 0)
        return real(handle, size, properties, flags);
    uint64_t bytes = round_up(size, STEP);
    if (!begin_charge(row, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = real(handle, size, properties, flags);
    if (result == CUDA_SUCCESS)
        blocks_put(&(struct block){
            .key = *handle, .bytes = bytes, .row = (int16_t)row, .kind = BLOCK_HANDLE, .references = 1});
    end_charge(row, bytes, result);
    return result;
}

EXPORTED CUresult cuMemRelease(CUmemHandle handle) {
    CUresult (*real)(CUmemHandle) = real_function(HOOK_cuMemRelease);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    if (!share_enforces())
        return real(handle);
    change_begins();
    CUresult result = real(handle);
    if (result == CUDA_SUCCESS)
        release(handle);
    change_ends();
    return result;
}

EXPORTED CUresult cuMemRetainAllocationHandle(CUmemHandle *handle, void *address) {
    CUresult (*real)(CUmemHandle *, void *) = real_function(HOOK_cuMemRetainAllocationHandle);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = real(handle, address);
    if (result == CUDA_SUCCESS && share_enforces())
        blocks_retain(BLOCK_HANDLE, *handle);
    return result;
}

/* Memory of another process: it pays. Memory of our own that comes back has one more reference. */
EXPORTED CUresult cuMemImportFromShareableHandle(CUmemHandle *handle, void *from, int type) {
    CUresult (*real)(CUmemHandle *, void *, int) = real_function(HOOK_cuMemImportFromShareableHandle);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = real(handle, from, type);
    if (result == CUDA_SUCCESS && share_enforces())
        blocks_retain(BLOCK_HANDLE, *handle);
    return result;
}

EXPORTED CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemHandle handle, unsigned long long flags) {
    CUresult (*real)(CUdeviceptr, size_t, size_t, CUmemHandle, unsigned long long) = real_function(HOOK_cuMemMap);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = real(address, size, offset, handle, flags);
    struct block block;
    if (result == CUDA_SUCCESS && share_enforces() && blocks_find(BLOCK_HANDLE, handle, &block)) {
        blocks_retain(BLOCK_HANDLE, handle);
        /* Its bytes are the length of the mapping; they are charged with the handle, so its row is none. */
        blocks_put(&(struct block){
            .key = address, .bytes = size, .other = handle, .row = -1, .kind = BLOCK_MAPPING, .references = 1});
    }
    return result;
}

EXPORTED CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
    CUresult (*real)(CUdeviceptr, size_t) = real_function(HOOK_cuMemUnmap);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    if (!share_enforces())
        return real(address, size);
    change_begins();
    CUresult result = real(address, size);
    /* One call may undo many mappings. */
    for (uint64_t at = address; result == CUDA_SUCCESS && at - address < size;) {
        struct block mapping;
        if (!blocks_take(BLOCK_MAPPING, at, &mapping)) {
            at += STEP;
            continue;
        }
        release(mapping.other);
        at += mapping.bytes != 0 ? mapping.bytes : STEP;
    }
    change_ends();
    return result;
}
