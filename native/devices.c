/* Which row of the share a device is: by UUID, never by index, because CUDA_VISIBLE_DEVICES, NVML and the share file
 * each have an order of their own. */
#include <stdio.h>
#include <string.h>

#include "gpufrac.h"
#include "hooks.h"

enum { ORDINALS_MAX = 64, NOT_ASKED = 0, NOT_OURS = 1, FIRST_ROW = 2 };

static _Atomic unsigned char known[ORDINALS_MAX];
static _Atomic unsigned generation = 1;

static __thread struct {
    CUcontext context;
    unsigned generation;
    int row;
} cached;

static int row_of_uuid(const CUuuid *uuid) {
    static const char *const prefixes[] = {"GPU", "MIG"};
    const unsigned char *b = uuid->bytes;
    for (int i = 0; i < 2; i++) {
        char text[UUID_BYTES];
        snprintf(text, sizeof text, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", prefixes[i],
                 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
        int row = share_row_of(text);
        if (row >= 0)
            return row;
    }
    return -1;
}

int row_of_ordinal(CUdevice ordinal) {
    if (ordinal < 0 || ordinal >= ORDINALS_MAX)
        return -1;
    unsigned char state = atomic_load_explicit(&known[ordinal], memory_order_relaxed);
    if (state == NOT_ASKED) {
        CUuuid uuid;
        if (driver()->cuDeviceGetUuid == NULL || driver()->cuDeviceGetUuid(&uuid, ordinal) != CUDA_SUCCESS)
            return -1;
        int row = row_of_uuid(&uuid);
        state = row < 0 ? NOT_OURS : (unsigned char)(FIRST_ROW + row);
        atomic_store(&known[ordinal], state);
    }
    return state == NOT_OURS ? -1 : state - FIRST_ROW;
}

CUdevice ordinal_of_row(int row) {
    for (int ordinal = 0; ordinal < ORDINALS_MAX; ordinal++)
        if (atomic_load_explicit(&known[ordinal], memory_order_relaxed) == FIRST_ROW + row)
            return ordinal;
    return -1;
}

int current_row(CUcontext *context) {
    CUcontext now = NULL;
    if (driver()->cuCtxGetCurrent == NULL || driver()->cuCtxGetCurrent(&now) != CUDA_SUCCESS || now == NULL)
        return -1;
    *context = now;
    unsigned current = atomic_load_explicit(&generation, memory_order_relaxed);
    if (cached.context == now && cached.generation == current)
        return cached.row;
    CUdevice ordinal;
    if (driver()->cuCtxGetDevice(&ordinal) != CUDA_SUCCESS)
        return -1;
    cached.context = now;
    cached.generation = current;
    cached.row = row_of_ordinal(ordinal);
    return cached.row;
}

void forget_contexts(void) {
    atomic_fetch_add(&generation, 1);
}

void devices_after_fork(void) {
    forget_contexts();
    for (int i = 0; i < ORDINALS_MAX; i++) /* CUDA_VISIBLE_DEVICES may be another */
        atomic_store(&known[i], NOT_ASKED);
}
