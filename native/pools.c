/* Stream-ordered memory: what is charged is what a pool has reserved on the device, as the driver reports it.
 *
 * A free returns memory to the pool, not to the device, and the pool may give it back at any synchronization. So the
 * charge of a pool is set again before and after each allocation, and before an allocation of any kind is refused. */
#include <pthread.h>
#include <string.h>

#include "gpufrac.h"
#include "hooks.h"

OLDEST_VERSION(pthread_mutex_trylock);

enum { POOLS_MAX = 256 };
static const uint64_t GROWTH = 32 * MIB; /* a pool grows by multiples of this */

struct pool {
    CUmemoryPool pool; /* NULL: this place is free */
    uint64_t charged;
    int row; /* -1: not of a device of the share, or another process pays */
};

static struct pool pools[POOLS_MAX];
static int pools_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- behind `lock` ---------------------------------------------------------------------------------------------------- */

static struct pool *known(CUmemoryPool wanted) {
    for (int i = 0; i < pools_used; i++)
        if (pools[i].pool == wanted)
            return &pools[i];
    return NULL;
}

static struct pool *add(CUmemoryPool pool, int row) {
    struct pool *place = known(NULL);
    if (place == NULL && pools_used < POOLS_MAX)
        place = &pools[pools_used++];
    if (place != NULL)
        *place = (struct pool){pool, 0, row};
    return place;
}

static uint64_t attribute(const struct pool *pool, int which, uint64_t otherwise) {
    uint64_t value = 0;
    CUresult (*ask)(CUmemoryPool, int, void *) = driver()->cuMemPoolGetAttribute;
    return ask != NULL && ask(pool->pool, which, &value) == CUDA_SUCCESS ? value : otherwise;
}

static void set_charge(struct pool *pool) {
    uint64_t reserved = attribute(pool, POOL_RESERVED_CURRENT, pool->charged);
    share_correct(pool->row, pool->charged, reserved);
    pool->charged = reserved;
}

/* By how much it must grow for this allocation. */
static uint64_t growth_for(const struct pool *pool, uint64_t size) {
    uint64_t used = attribute(pool, POOL_USED_CURRENT, pool->charged);
    uint64_t slack = pool->charged > used ? pool->charged - used : 0;
    return size > slack ? round_up(size - slack, GROWTH) : 0;
}

static bool charge_growth(struct pool *pool, uint64_t size, uint64_t *growth) {
    set_charge(pool);
    *growth = growth_for(pool, size);
    if (*growth == 0 || share_charge(pool->row, *growth))
        return true;
    CUresult (*trim)(CUmemoryPool, size_t) = real_function(HOOK_cuMemPoolTrimTo);
    if (trim == NULL || trim(pool->pool, 0) != CUDA_SUCCESS)
        return false;
    set_charge(pool);
    *growth = growth_for(pool, size);
    return *growth == 0 || share_charge(pool->row, *growth);
}

/* --------------------------------------------------------------------------------------------------------------------- */

void pools_refresh(int row) {
    if (pthread_mutex_trylock(&lock) != 0)
        return; /* an allocation of this thread or another is setting it */
    for (int i = 0; i < pools_used; i++)
        if (pools[i].pool != NULL && pools[i].row == row)
            set_charge(&pools[i]);
    pthread_mutex_unlock(&lock);
}

void pools_after_fork(void) {
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    memset(pools, 0, sizeof pools);
    pools_used = 0;
}

/* A pool that was not made through us is the default pool of a device. */
static int row_of_pool(CUmemoryPool wanted, int current) {
    for (int row = 0; row < share_device_count(); row++) {
        CUmemoryPool pool = NULL;
        CUdevice ordinal = ordinal_of_row(row);
        if (ordinal >= 0 && driver()->cuDeviceGetDefaultMemPool != NULL &&
            driver()->cuDeviceGetDefaultMemPool(&pool, ordinal) == CUDA_SUCCESS && pool == wanted)
            return row;
    }
    return current;
}

struct request {
    CUdeviceptr *address;
    size_t size;
    CUmemoryPool pool; /* NULL: the current one of the device */
    CUstream stream;
    void *real;
};

static CUresult call(const struct request *request) {
    if (request->pool != NULL)
        return ((CUresult(*)(CUdeviceptr *, size_t, CUmemoryPool, CUstream))request->real)(
            request->address, request->size, request->pool, request->stream);
    return ((CUresult(*)(CUdeviceptr *, size_t, CUstream))request->real)(request->address, request->size,
                                                                         request->stream);
}

/* During a capture nothing is allocated: a node of a graph is made. An error: leave it to the driver. */
static bool is_capturing(CUstream stream, bool is_twin) {
    CUresult (*ask)(CUstream, int *) = is_twin ? driver()->cuStreamIsCapturing_ptsz : driver()->cuStreamIsCapturing;
    int status = 0;
    return ask != NULL && (ask(stream, &status) != CUDA_SUCCESS || status != 0);
}

static CUresult allocate(const struct request *request, bool is_twin) {
    CUcontext context;
    int row = share_enforces() ? current_row(&context) : -1;
    CUmemoryPool wanted = request->pool;
    if (row >= 0 && wanted == NULL && driver()->cuDeviceGetMemPool != NULL) {
        CUdevice ordinal = ordinal_of_row(row);
        if (driver()->cuDeviceGetMemPool(&wanted, ordinal) != CUDA_SUCCESS)
            wanted = NULL;
    }
    if (row < 0 || wanted == NULL || request->address == NULL || is_capturing(request->stream, is_twin))
        return call(request);
    pthread_mutex_lock(&lock);
    struct pool *pool = known(wanted);
    if (pool == NULL)
        pool = add(wanted, row_of_pool(wanted, row));
    if (pool == NULL || pool->row < 0) {
        pthread_mutex_unlock(&lock);
        return call(request);
    }
    change_begins();
    uint64_t growth = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (charge_growth(pool, request->size, &growth)) {
        pool->charged += growth;
        result = call(request);
        if (growth != 0) /* the driver may have taken more or less */
            set_charge(pool);
        if (result == CUDA_ERROR_OUT_OF_MEMORY)
            share_count_driver_refusal(pool->row);
    } else {
        share_count_refusal(pool->row, request->size);
    }
    change_ends();
    pthread_mutex_unlock(&lock);
    return result;
}

#define ALLOCATE_ASYNC(name, is_twin)                                                   \
    EXPORTED CUresult name(CUdeviceptr *address, size_t size, CUstream stream) {        \
        struct request request = {address, size, NULL, stream, real_function(HOOK_##name)}; \
        return request.real != NULL ? allocate(&request, is_twin) : CUDA_ERROR_NOT_FOUND; \
    }

#define ALLOCATE_FROM_POOL(name, is_twin)                                                             \
    EXPORTED CUresult name(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream) {   \
        CUresult (*real)(CUdeviceptr *, size_t, CUmemoryPool, CUstream) = real_function(HOOK_##name); \
        if (real == NULL)                                                                             \
            return CUDA_ERROR_NOT_FOUND;                                                              \
        if (pool == NULL)                                                                             \
            return real(address, size, pool, stream);                                                 \
        struct request request = {address, size, pool, stream, (void *)real};                         \
        return allocate(&request, is_twin);                                                           \
    }

ALLOCATE_ASYNC(cuMemAllocAsync, false)
ALLOCATE_ASYNC(cuMemAllocAsync_ptsz, true)
ALLOCATE_FROM_POOL(cuMemAllocFromPoolAsync, false)
ALLOCATE_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, true)

static void remember(CUmemoryPool pool, int row) {
    pthread_mutex_lock(&lock);
    struct pool *place = known(pool);
    if (place != NULL)
        *place = (struct pool){pool, 0, row};
    else
        add(pool, row);
    pthread_mutex_unlock(&lock);
}

EXPORTED CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    CUresult (*real)(CUmemoryPool *, const CUmemPoolProps *) = real_function(HOOK_cuMemPoolCreate);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = real(pool, properties);
    if (result == CUDA_SUCCESS && share_enforces()) {
        bool is_on_device = properties != NULL && properties->location.type == LOCATION_DEVICE;
        remember(*pool, is_on_device ? row_of_ordinal(properties->location.id) : -1);
    }
    return result;
}

EXPORTED CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *from, int type, unsigned long long flags) {
    CUresult (*real)(CUmemoryPool *, void *, int, unsigned long long) =
        real_function(HOOK_cuMemPoolImportFromShareableHandle);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = real(pool, from, type, flags);
    if (result == CUDA_SUCCESS && share_enforces())
        remember(*pool, -1); /* its owner pays */
    return result;
}

EXPORTED CUresult cuMemPoolDestroy(CUmemoryPool wanted) {
    CUresult (*real)(CUmemoryPool) = real_function(HOOK_cuMemPoolDestroy);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    if (wanted == NULL || !share_enforces())
        return real(wanted);
    pthread_mutex_lock(&lock);
    change_begins();
    CUresult result = real(wanted);
    struct pool *pool = known(wanted);
    if (result == CUDA_SUCCESS && pool != NULL) {
        if (pool->row >= 0)
            share_discharge(pool->row, pool->charged);
        *pool = (struct pool){NULL, 0, -1};
    }
    change_ends();
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORTED CUresult cuMemPoolTrimTo(CUmemoryPool wanted, size_t keep) {
    CUresult (*real)(CUmemoryPool, size_t) = real_function(HOOK_cuMemPoolTrimTo);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    if (wanted == NULL || !share_enforces())
        return real(wanted, keep);
    pthread_mutex_lock(&lock);
    change_begins();
    CUresult result = real(wanted, keep);
    struct pool *pool = known(wanted);
    if (pool != NULL && pool->row >= 0)
        set_charge(pool);
    change_ends();
    pthread_mutex_unlock(&lock);
    return result;
}
