/* Contexts: a new one takes memory that no call asks for, and one that ends frees all that was allocated in it. */
#include <stdlib.h>

#include "gpufrac.h"
#include "hooks.h"

enum { ORDINALS_MAX = 64 };
static _Atomic(CUcontext) primary[ORDINALS_MAX];

#define REAL(name, ...)                                         \
    CUresult (*real)(__VA_ARGS__) = real_function(HOOK_##name); \
    if (real == NULL)                                           \
        return CUDA_ERROR_NOT_FOUND

EXPORTED CUresult cuInit(unsigned flags) {
    REAL(cuInit, unsigned);
    const char *required = getenv("GPUFRAC_REQUIRE");
    if (!share_enforces() && share_failure() != NULL && required != NULL && required[0] == '1') {
        report(LOG_WARNING, "CUDA is refused, because GPU memory cannot be limited: %s", share_failure());
        return CUDA_ERROR_SYSTEM_NOT_READY;
    }
    return real(flags);
}

static CUresult created(CUresult result, CUdevice ordinal) {
    int row = result == CUDA_SUCCESS && share_enforces() ? row_of_ordinal(ordinal) : -1;
    if (row >= 0) {
        overhead_forget(); /* however short ago it was measured */
        overhead_refresh(row);
    }
    return result;
}

static void ended(CUcontext context) {
    blocks_drop_context(context);
    forget_contexts();
    overhead_forget();
}

EXPORTED CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice ordinal) {
    REAL(cuCtxCreate, CUcontext *, unsigned, CUdevice);
    return created(real(context, flags, ordinal), ordinal);
}

EXPORTED CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice ordinal) {
    REAL(cuCtxCreate_v2, CUcontext *, unsigned, CUdevice);
    return created(real(context, flags, ordinal), ordinal);
}

EXPORTED CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned flags, CUdevice ordinal) {
    REAL(cuCtxCreate_v3, CUcontext *, void *, int, unsigned, CUdevice);
    return created(real(context, affinity, count, flags, ordinal), ordinal);
}

EXPORTED CUresult cuCtxCreate_v4(CUcontext *context, void *params, unsigned flags, CUdevice ordinal) {
    REAL(cuCtxCreate_v4, CUcontext *, void *, unsigned, CUdevice);
    return created(real(context, params, flags, ordinal), ordinal);
}

EXPORTED CUresult cuCtxDestroy(CUcontext context) {
    REAL(cuCtxDestroy, CUcontext);
    CUresult result = real(context);
    if (result == CUDA_SUCCESS && share_enforces())
        ended(context);
    return result;
}

EXPORTED CUresult cuCtxDestroy_v2(CUcontext context) {
    REAL(cuCtxDestroy_v2, CUcontext);
    CUresult result = real(context);
    if (result == CUDA_SUCCESS && share_enforces())
        ended(context);
    return result;
}

EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal) {
    REAL(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice);
    CUresult result = real(context, ordinal);
    if (result != CUDA_SUCCESS || ordinal < 0 || ordinal >= ORDINALS_MAX)
        return result;
    /* Programs retain it again and again; it takes memory the first time. */
    bool is_new = atomic_exchange(&primary[ordinal], *context) != *context;
    return is_new ? created(result, ordinal) : result;
}

static CUresult primary_ended(CUresult result, CUdevice ordinal) {
    if (result != CUDA_SUCCESS || ordinal < 0 || ordinal >= ORDINALS_MAX || !share_enforces())
        return result;
    unsigned flags = 0;
    int is_active = 1;
    CUresult (*ask)(CUdevice, unsigned *, int *) = driver()->cuDevicePrimaryCtxGetState;
    if (ask != NULL && ask(ordinal, &flags, &is_active) == CUDA_SUCCESS && !is_active)
        ended(atomic_exchange(&primary[ordinal], NULL));
    return result;
}

#define PRIMARY_ENDS(name)                     \
    EXPORTED CUresult name(CUdevice ordinal) { \
        REAL(name, CUdevice);                  \
        return primary_ended(real(ordinal), ordinal); \
    }

PRIMARY_ENDS(cuDevicePrimaryCtxRelease)
PRIMARY_ENDS(cuDevicePrimaryCtxRelease_v2)
PRIMARY_ENDS(cuDevicePrimaryCtxReset)
PRIMARY_ENDS(cuDevicePrimaryCtxReset_v2)
