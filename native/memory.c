/* Linear memory and arrays: what is charged when it is allocated, and given back when it is freed. */
#include "gpufrac.h"
#include "hooks.h"

bool begin_charge(int row, uint64_t bytes) {
    change_begins();
    if (share_charge(row, bytes))
        return true;
    share_count_refusal(row, bytes);
    change_ends();
    return false;
}

void end_charge(int row, uint64_t bytes, CUresult result) {
    if (result != CUDA_SUCCESS)
        share_discharge(row, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        share_count_driver_refusal(row);
    change_ends();
}

/* The driver gives blocks above 1 MiB in multiples of 2 MiB and packs smaller ones; what packing loses is overhead. */
static uint64_t linear_bytes(uint64_t bytes) {
    return bytes > MIB ? round_up(bytes, 2 * MIB) : bytes;
}

static uint64_t times(uint64_t left, uint64_t right) {
    uint64_t product;
    return __builtin_mul_overflow(left, right, &product) ? UINT64_MAX : product;
}

static void keep(enum block_kind kind, uint64_t key, int row, uint64_t bytes, CUcontext context) {
    blocks_put(&(struct block){
        .key = key, .bytes = bytes, .context = context, .row = (int16_t)row, .kind = (uint16_t)kind, .references = 1});
}

/* One allocation: CALL is the driver's, KEY what it will be freed by. */
#define ALLOCATE(KIND, BYTES, CALL, KEY)                          \
    do {                                                          \
        CUcontext context;                                        \
        int row = share_enforces() ? current_row(&context) : -1;  \
        if (row < 0)                                              \
            return CALL;                                          \
        uint64_t bytes = BYTES;                                   \
        if (!begin_charge(row, bytes))                            \
            return CUDA_ERROR_OUT_OF_MEMORY;                      \
        CUresult result = CALL;                                   \
        if (result == CUDA_SUCCESS)                               \
            keep(KIND, (uint64_t)KEY, row, bytes, context);       \
        end_charge(row, bytes, result);                           \
        return result;                                            \
    } while (0)

/* One free: what we do not know is the driver's business alone. */
#define FREE(KIND, KEY, CALL)                                              \
    do {                                                                   \
        struct block block;                                                \
        if (!share_enforces() || !blocks_take(KIND, (uint64_t)KEY, &block)) \
            return CALL;                                                   \
        change_begins();                                                   \
        CUresult result = CALL;                                            \
        if (result == CUDA_SUCCESS)                                        \
            share_discharge(block.row, block.bytes);                       \
        else                                                               \
            blocks_put(&block);                                            \
        change_ends();                                                     \
        return result;                                                     \
    } while (0)

#define REAL(name, ...)                                             \
    CUresult (*real)(__VA_ARGS__) = real_function(HOOK_##name);     \
    if (real == NULL)                                               \
        return CUDA_ERROR_NOT_FOUND

/* --- linear --------------------------------------------------------------------------------------------------------- */

EXPORTED CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    REAL(cuMemAlloc_v2, CUdeviceptr *, size_t);
    if (address == NULL || size == 0)
        return real(address, size);
    ALLOCATE(BLOCK_LINEAR, linear_bytes(size), real(address, size), *address);
}

EXPORTED CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned size) {
    REAL(cuMemAlloc, CUdeviceptr_v1 *, unsigned);
    if (address == NULL || size == 0)
        return real(address, size);
    ALLOCATE(BLOCK_LINEAR, linear_bytes(size), real(address, size), *address);
}

EXPORTED CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    REAL(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned);
    if (address == NULL || pitch == NULL || width == 0 || height == 0)
        return real(address, pitch, width, height, element);
    ALLOCATE(BLOCK_LINEAR, linear_bytes(times(round_up(width, 512), height)),
             real(address, pitch, width, height, element), *address);
}

EXPORTED CUresult cuMemAllocPitch(CUdeviceptr_v1 *address, unsigned *pitch, unsigned width, unsigned height,
                                  unsigned element) {
    REAL(cuMemAllocPitch, CUdeviceptr_v1 *, unsigned *, unsigned, unsigned, unsigned);
    if (address == NULL || pitch == NULL || width == 0 || height == 0)
        return real(address, pitch, width, height, element);
    ALLOCATE(BLOCK_LINEAR, linear_bytes(times(round_up(width, 512), height)),
             real(address, pitch, width, height, element), *address);
}

/* Charged in full, although pages may be in the host's memory: then no migration can pass the limit. */
EXPORTED CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags) {
    REAL(cuMemAllocManaged, CUdeviceptr *, size_t, unsigned);
    if (address == NULL || size == 0)
        return real(address, size, flags);
    ALLOCATE(BLOCK_LINEAR, linear_bytes(size), real(address, size, flags), *address);
}

EXPORTED CUresult cuMemFree_v2(CUdeviceptr address) {
    REAL(cuMemFree_v2, CUdeviceptr);
    FREE(BLOCK_LINEAR, address, real(address));
}

EXPORTED CUresult cuMemFree(CUdeviceptr_v1 address) {
    REAL(cuMemFree, CUdeviceptr_v1);
    FREE(BLOCK_LINEAR, address, real(address));
}

/* Memory of a pool is not in the table: its charge follows the pool. */
EXPORTED CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    REAL(cuMemFreeAsync, CUdeviceptr, CUstream);
    FREE(BLOCK_LINEAR, address, real(address, stream));
}

EXPORTED CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
    REAL(cuMemFreeAsync_ptsz, CUdeviceptr, CUstream);
    FREE(BLOCK_LINEAR, address, real(address, stream));
}

/* --- arrays ---------------------------------------------------------------------------------------------------------- */

enum { FIRST_BLOCK_FORMAT = 0x91, LAST_BLOCK_FORMAT = 0x9d };

/* Bytes of one channel; of block-compressed formats, of 4 x 4 elements. */
static uint64_t format_bytes(int format) {
    switch (format) {
    case 0x01: /* unsigned and signed 8 bit, and the normalized formats of one channel */
    case 0x08:
        return 1;
    case 0x02: /* 16 bit, half */
    case 0x09:
    case 0x10:
        return 2;
    default:
        return 4;
    }
}

static uint64_t array_bytes(uint64_t width, uint64_t height, uint64_t depth, int format, uint64_t channels) {
    uint64_t rows = height != 0 ? height : 1, layers = depth != 0 ? depth : 1;
    if (format >= FIRST_BLOCK_FORMAT && format <= LAST_BLOCK_FORMAT) {
        bool is_half = format <= 0x92 || format == 0x97 || format == 0x98; /* BC1 and BC4: 8 bytes a block */
        return times(times(times((width + 3) / 4, (rows + 3) / 4), layers), is_half ? 8 : 16);
    }
    return times(times(times(width, rows), layers), times(channels != 0 ? channels : 1, format_bytes(format)));
}

/* Sparse arrays and those that are mapped later have no memory of their own. */
static bool has_memory(unsigned flags) {
    return (flags & (ARRAY_SPARSE | ARRAY_DEFERRED_MAPPING)) == 0;
}

static uint64_t mipmap_bytes(const CUarray3DDescriptor *of, unsigned levels) {
    uint64_t total = 0;
    for (unsigned level = 0; level < levels && level < 32; level++) {
        uint64_t width = of->width >> level, height = of->height >> level, depth = of->depth >> level;
        uint64_t bytes = array_bytes(width != 0 ? width : 1, height, depth, of->format, of->channels);
        if (__builtin_add_overflow(total, bytes, &total))
            return UINT64_MAX;
        if (width <= 1 && height <= 1 && depth <= 1)
            break;
    }
    return total;
}

EXPORTED CUresult cuArrayCreate_v2(CUarray *array, const CUarrayDescriptor *of) {
    REAL(cuArrayCreate_v2, CUarray *, const CUarrayDescriptor *);
    if (array == NULL || of == NULL)
        return real(array, of);
    ALLOCATE(BLOCK_ARRAY, linear_bytes(array_bytes(of->width, of->height, 0, of->format, of->channels)),
             real(array, of), *array);
}

EXPORTED CUresult cuArrayCreate(CUarray *array, const CUarrayDescriptor_v1 *of) {
    REAL(cuArrayCreate, CUarray *, const CUarrayDescriptor_v1 *);
    if (array == NULL || of == NULL)
        return real(array, of);
    ALLOCATE(BLOCK_ARRAY, linear_bytes(array_bytes(of->width, of->height, 0, of->format, of->channels)),
             real(array, of), *array);
}

EXPORTED CUresult cuArray3DCreate_v2(CUarray *array, const CUarray3DDescriptor *of) {
    REAL(cuArray3DCreate_v2, CUarray *, const CUarray3DDescriptor *);
    if (array == NULL || of == NULL || !has_memory(of->flags))
        return real(array, of);
    ALLOCATE(BLOCK_ARRAY, linear_bytes(array_bytes(of->width, of->height, of->depth, of->format, of->channels)),
             real(array, of), *array);
}

EXPORTED CUresult cuArray3DCreate(CUarray *array, const CUarray3DDescriptor_v1 *of) {
    REAL(cuArray3DCreate, CUarray *, const CUarray3DDescriptor_v1 *);
    if (array == NULL || of == NULL || !has_memory(of->flags))
        return real(array, of);
    ALLOCATE(BLOCK_ARRAY, linear_bytes(array_bytes(of->width, of->height, of->depth, of->format, of->channels)),
             real(array, of), *array);
}

EXPORTED CUresult cuArrayDestroy(CUarray array) {
    REAL(cuArrayDestroy, CUarray);
    FREE(BLOCK_ARRAY, array, real(array));
}

EXPORTED CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUarray3DDescriptor *of, unsigned levels) {
    REAL(cuMipmappedArrayCreate, CUmipmappedArray *, const CUarray3DDescriptor *, unsigned);
    if (array == NULL || of == NULL || !has_memory(of->flags))
        return real(array, of, levels);
    ALLOCATE(BLOCK_MIPMAP, linear_bytes(mipmap_bytes(of, levels)), real(array, of, levels), *array);
}

EXPORTED CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
    REAL(cuMipmappedArrayDestroy, CUmipmappedArray);
    FREE(BLOCK_MIPMAP, array, real(array));
}
