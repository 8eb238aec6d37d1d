/* What a program sees of a device: the share's memory in place of the card's, and the share's processes. Names, clocks
 * and everything else are the card's own. */
#include <string.h>

#include "gpufrac.h"
#include "hooks.h"

#define REAL(name, absent, ...)                            \
    int (*real)(__VA_ARGS__) = real_function(HOOK_##name); \
    if (real == NULL)                                      \
        return absent

static uint64_t at_most(uint64_t value, uint64_t bound) {
    return value < bound ? value : bound;
}

static uint64_t left(int row) {
    uint64_t limit = share_limit(row), use = share_use(row);
    return limit > use ? limit - use : 0;
}

/* --- CUDA ------------------------------------------------------------------------------------------------------------- */

static void limit_info(uint64_t *free_bytes, uint64_t *total) {
    CUcontext context;
    int row = share_enforces() ? current_row(&context) : -1;
    if (row < 0)
        return;
    pools_refresh(row);
    *total = at_most(*total, share_limit(row));
    *free_bytes = at_most(*free_bytes, left(row));
}

EXPORTED CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    REAL(cuMemGetInfo_v2, CUDA_ERROR_NOT_FOUND, size_t *, size_t *);
    size_t real_free = 0, real_total = 0;
    CUresult result = real(&real_free, &real_total);
    uint64_t shown_free = real_free, shown_total = real_total;
    if (result == CUDA_SUCCESS)
        limit_info(&shown_free, &shown_total);
    if (result == CUDA_SUCCESS && free_bytes != NULL)
        *free_bytes = shown_free;
    if (result == CUDA_SUCCESS && total != NULL)
        *total = shown_total;
    return result;
}

EXPORTED CUresult cuMemGetInfo(unsigned *free_bytes, unsigned *total) {
    REAL(cuMemGetInfo, CUDA_ERROR_NOT_FOUND, unsigned *, unsigned *);
    unsigned real_free = 0, real_total = 0;
    CUresult result = real(&real_free, &real_total);
    uint64_t shown_free = real_free, shown_total = real_total;
    if (result == CUDA_SUCCESS)
        limit_info(&shown_free, &shown_total);
    if (result == CUDA_SUCCESS && free_bytes != NULL)
        *free_bytes = (unsigned)shown_free;
    if (result == CUDA_SUCCESS && total != NULL)
        *total = (unsigned)shown_total;
    return result;
}

EXPORTED CUresult cuDeviceTotalMem_v2(size_t *total, CUdevice ordinal) {
    REAL(cuDeviceTotalMem_v2, CUDA_ERROR_NOT_FOUND, size_t *, CUdevice);
    CUresult result = real(total, ordinal);
    int row = result == CUDA_SUCCESS && total != NULL && share_enforces() ? row_of_ordinal(ordinal) : -1;
    if (row >= 0)
        *total = at_most(*total, share_limit(row));
    return result;
}

EXPORTED CUresult cuDeviceTotalMem(unsigned *total, CUdevice ordinal) {
    REAL(cuDeviceTotalMem, CUDA_ERROR_NOT_FOUND, unsigned *, CUdevice);
    CUresult result = real(total, ordinal);
    int row = result == CUDA_SUCCESS && total != NULL && share_enforces() ? row_of_ordinal(ordinal) : -1;
    if (row >= 0)
        *total = (unsigned)at_most(*total, share_limit(row));
    return result;
}

/* --- NVML: also nvidia-smi, which takes no slot ------------------------------------------------------------------------- */

static int row_of_handle(nvmlDevice device) {
    static _Atomic(void *) known_uuid;
    if (!share_is_visible())
        return -1;
    nvmlReturn (*ask)(nvmlDevice, char *, unsigned) = atomic_load(&known_uuid);
    if (ask == NULL) {
        ask = (nvmlReturn(*)(nvmlDevice, char *, unsigned))nvml_symbol("nvmlDeviceGetUUID");
        atomic_store(&known_uuid, (void *)ask);
    }
    char uuid[96] = "";
    if (ask == NULL || ask(device, uuid, sizeof uuid) != NVML_SUCCESS)
        return -1;
    return share_row_of(uuid);
}

EXPORTED nvmlReturn nvmlDeviceGetMemoryInfo(nvmlDevice device, nvmlMemory *memory) {
    REAL(nvmlDeviceGetMemoryInfo, NVML_ERROR_FUNCTION_NOT_FOUND, nvmlDevice, nvmlMemory *);
    nvmlReturn result = real(device, memory);
    int row = result == NVML_SUCCESS ? row_of_handle(device) : -1;
    if (row >= 0) {
        memory->total = at_most(memory->total, share_limit(row));
        memory->used = at_most(share_use(row), memory->total);
        memory->free = memory->total - memory->used;
    }
    return result;
}

EXPORTED nvmlReturn nvmlDeviceGetMemoryInfo_v2(nvmlDevice device, nvmlMemory_v2 *memory) {
    REAL(nvmlDeviceGetMemoryInfo_v2, NVML_ERROR_FUNCTION_NOT_FOUND, nvmlDevice, nvmlMemory_v2 *);
    nvmlReturn result = real(device, memory);
    int row = result == NVML_SUCCESS ? row_of_handle(device) : -1;
    if (row >= 0) {
        memory->total = at_most(memory->total, share_limit(row));
        memory->used = at_most(share_use(row), memory->total);
        memory->free = memory->total - memory->used;
        memory->reserved = 0;
    }
    return result;
}

/* Processes that compute: those of the share, with the numbers of its own namespace, where the driver may know others. */
static nvmlReturn list_share(int row, unsigned *count, void *found, bool is_first_version) {
    struct share_process processes[SLOTS_MAX];
    unsigned there = share_processes(row, processes, SLOTS_MAX), room = *count;
    *count = there;
    if (there > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < there && found != NULL; i++) {
        if (is_first_version)
            ((nvmlProcess_v1 *)found)[i] = (nvmlProcess_v1){processes[i].pid, processes[i].bytes};
        else /* not in an instance of MIG */
            ((nvmlProcess *)found)[i] = (nvmlProcess){processes[i].pid, processes[i].bytes, ~0u, ~0u};
    }
    return NVML_SUCCESS;
}

#define COMPUTING(name, is_first_version)                                                    \
    EXPORTED nvmlReturn name(nvmlDevice device, unsigned *count, void *found) {              \
        REAL(name, NVML_ERROR_FUNCTION_NOT_FOUND, nvmlDevice, unsigned *, void *);           \
        int row = count != NULL ? row_of_handle(device) : -1;                                \
        if (row < 0)                                                                         \
            return real(device, count, found);                                               \
        return list_share(row, count, found, is_first_version);                              \
    }

COMPUTING(nvmlDeviceGetComputeRunningProcesses, true)
COMPUTING(nvmlDeviceGetComputeRunningProcesses_v2, false)
COMPUTING(nvmlDeviceGetComputeRunningProcesses_v3, false)

/* Other lists: rows of the share's processes. `size` is that of a row, which begins with the process's number. */
static void keep_own(unsigned *count, char *rows, size_t size) {
    unsigned kept = 0;
    for (unsigned i = 0; i < *count; i++) {
        unsigned pid;
        memcpy(&pid, rows + i * size, sizeof pid);
        if (!share_has_pid(pid))
            continue;
        memmove(rows + kept++ * size, rows + i * size, size);
    }
    *count = kept;
}

#define FILTERED(name, type)                                                          \
    EXPORTED nvmlReturn name(nvmlDevice device, unsigned *count, type *found) {       \
        REAL(name, NVML_ERROR_FUNCTION_NOT_FOUND, nvmlDevice, unsigned *, type *);    \
        nvmlReturn result = real(device, count, found);                               \
        if (result == NVML_SUCCESS && count != NULL && found != NULL && row_of_handle(device) >= 0) \
            keep_own(count, (char *)found, sizeof *found);                            \
        return result;                                                                \
    }

FILTERED(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcess_v1)
FILTERED(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcess)
FILTERED(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcess)
FILTERED(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcess_v1)
FILTERED(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcess)
FILTERED(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcess)

EXPORTED nvmlReturn nvmlDeviceGetProcessUtilization(nvmlDevice device, nvmlProcessSample *found, unsigned *count,
                                                    unsigned long long since) {
    REAL(nvmlDeviceGetProcessUtilization, NVML_ERROR_FUNCTION_NOT_FOUND, nvmlDevice, nvmlProcessSample *, unsigned *,
         unsigned long long);
    nvmlReturn result = real(device, found, count, since);
    if (result == NVML_SUCCESS && count != NULL && found != NULL && row_of_handle(device) >= 0)
        keep_own(count, (char *)found, sizeof *found);
    return result;
}
