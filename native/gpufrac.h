/* Parts of the library that several of its files use. */
#ifndef GPUFRAC_H
#define GPUFRAC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda_types.h"
#include "share.h"

#define EXPORTED __attribute__((visibility("default")))
#define MIB (1ULL << 20)

/* glibc 2.34 gave some functions another version; with the first one the library also loads with older ones, in programs
 * that have libdl and libpthread, which it does not name where glibc 2.34 or newer built it. */
#if defined(__x86_64__)
#define OLDEST_VERSION(function) __asm__(".symver " #function "," #function "@GLIBC_2.2.5")
#else
#define OLDEST_VERSION(function) __asm__(".symver " #function "," #function "@GLIBC_2.17")
#endif

static inline uint64_t round_up(uint64_t value, uint64_t unit) {
    uint64_t sum;
    return __builtin_add_overflow(value, unit - 1, &sum) ? UINT64_MAX : sum / unit * unit;
}

/* --- warning.c: one line on standard error ---------------------------------------------------------------------- */

enum { LOG_WARNING = 1, LOG_INFO = 2 };
void report(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- clock.c ------------------------------------------------------------------------------------------------------ */

uint64_t coarse_ns(void); /* precise to a few milliseconds, and cheap */
void sleep_ns(uint64_t ns);

/* --- devices.c: which row of the share a device is ---------------------------------------------------------------- */

/* The row of the current context's device, and the context; -1: none, or its device is not in the share. */
int current_row(CUcontext *context);
int row_of_ordinal(CUdevice ordinal);
CUdevice ordinal_of_row(int row); /* -1: not seen yet */
void forget_contexts(void); /* after a context was destroyed, its address may come back for another device */
void devices_after_fork(void);

/* --- memory.c: around one allocation -------------------------------------------------------------------------------- */

/* Take it from the share. False: refused, and counted. */
bool begin_charge(int row, uint64_t bytes);
/* After the driver was asked: keep it or give it back. */
void end_charge(int row, uint64_t bytes, CUresult result);

/* --- blocks.c: what is allocated, by address or handle ------------------------------------------------------------ */

enum block_kind { BLOCK_LINEAR, BLOCK_HANDLE, BLOCK_MAPPING, BLOCK_ARRAY, BLOCK_MIPMAP, BLOCK_GRAPH };

struct block {
    uint64_t key;
    uint64_t bytes; /* charged */
    uint64_t other; /* BLOCK_MAPPING: the handle that is mapped */
    void *context;  /* it is freed with this one; NULL: it outlives contexts */
    struct block *next;
    int16_t row;
    uint16_t kind;
    uint32_t references;
};

void blocks_put(const struct block *block);
bool blocks_take(enum block_kind kind, uint64_t key, struct block *taken);
bool blocks_find(enum block_kind kind, uint64_t key, struct block *found);
/* Add a reference. */
void blocks_retain(enum block_kind kind, uint64_t key);
/* Drop one; true: that was the last, the block is taken out. */
bool blocks_release(enum block_kind kind, uint64_t key, struct block *taken);
/* Take out all blocks of a context, and discharge them. */
void blocks_drop_context(void *context);
void blocks_after_fork(void);

/* --- overhead.c: what the driver reports beyond what we track ------------------------------------------------------ */

/* Around every driver call that changes what is tracked: a measurement that overlaps one is not exact. */
void change_begins(void);
void change_ends(void);
void overhead_refresh_if_due(int row, uint64_t bytes);
/* Now, unless it was measured a moment ago. True: it was measured. */
bool overhead_refresh(int row);
void overhead_forget(void); /* measure at the next opportunity */
void overhead_note_use(int row, uint64_t use);
void overhead_after_fork(void);

/* --- pools.c, graphs.c: charges that follow what the driver reports ------------------------------------------------- */

void pools_refresh(int row);
void pools_after_fork(void);
void graphs_refresh(int row);
void graphs_after_fork(void);
void interpose_after_fork(void);

#endif
