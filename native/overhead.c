/* What a process has of a device beyond what we track: its context, modules, workspaces, the rounding of small blocks,
 * and whatever is allocated by calls that are not hooked.
 *
 * It is the figure of NVML for this process, less what is tracked. No context of our own is ever made to find out.
 * Measured at the first allocation, then once a second, and every 20 ms when the share is nearly used up. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpufrac.h"
#include "hooks.h"

OLDEST_VERSION(pthread_mutex_trylock);

enum { LISTED_MAX = 1024, TRIES_MAX = 3 };
static const uint64_t SELDOM_NS = 1000000000ULL, OFTEN_NS = 20000000ULL;

static _Atomic uint64_t measured_at[DEVICES_MAX]; /* 0: not yet */
static _Atomic uint64_t last_use[DEVICES_MAX];
static _Atomic uint64_t changes; /* how many were begun, times 2^32, and how many of them are open */
static const uint64_t ONE_BEGUN = (1ULL << 32) + 1;
static pthread_mutex_t measuring = PTHREAD_MUTEX_INITIALIZER;

static nvmlReturn (*list_processes)(nvmlDevice, unsigned *, nvmlProcess *);
static nvmlReturn (*handle_by_uuid)(const char *, nvmlDevice *);
static nvmlDevice handles[DEVICES_MAX];
static bool was_tried;

static __thread unsigned changes_of_thread;

void change_begins(void) {
    changes_of_thread++;
    atomic_fetch_add(&changes, ONE_BEGUN);
}

void change_ends(void) {
    changes_of_thread--;
    atomic_fetch_sub(&changes, 1);
}

static void find_nvml(void) {
    was_tried = true;
    nvmlReturn (*init)(void) = (nvmlReturn(*)(void))nvml_symbol("nvmlInit_v2");
    if (init == NULL || init() != NVML_SUCCESS)
        return;
    handle_by_uuid = (nvmlReturn(*)(const char *, nvmlDevice *))nvml_symbol("nvmlDeviceGetHandleByUUID");
    void *list = nvml_symbol("nvmlDeviceGetComputeRunningProcesses_v3");
    if (list == NULL)
        list = nvml_symbol("nvmlDeviceGetComputeRunningProcesses_v2");
    list_processes = (nvmlReturn(*)(nvmlDevice, unsigned *, nvmlProcess *))list;
}

/* What NVML reports of this process; false: it does not list it. */
static bool reported(int row, uint64_t *bytes) {
    static nvmlProcess listed[LISTED_MAX]; /* behind `measuring` */
    if (!was_tried)
        find_nvml();
    if (list_processes == NULL || handle_by_uuid == NULL)
        return false;
    if (handles[row] == NULL && handle_by_uuid(share_device_uuid(row), &handles[row]) != NVML_SUCCESS)
        return false;
    unsigned count = LISTED_MAX;
    if (list_processes(handles[row], &count, listed) != NVML_SUCCESS)
        return false;
    unsigned own = share_driver_pid();
    for (unsigned i = 0; i < count && i < LISTED_MAX; i++) {
        if (listed[i].pid == own && listed[i].used != NVML_VALUE_NOT_AVAILABLE) {
            *bytes = listed[i].used;
            return true;
        }
    }
    return false;
}

static void measure(int row) {
    for (int tries = 0;; tries++) {
        uint64_t before = atomic_load(&changes);
        /* This thread's own one is not charged yet. */
        bool is_quiet = (uint32_t)before == changes_of_thread;
        pools_refresh(row);
        graphs_refresh(row);
        uint64_t bytes = 0;
        uint64_t tracked = share_own_tracked(row);
        if (!reported(row, &bytes)) {
            share_set_overhead(row, share_context_bytes(row));
            return;
        }
        uint64_t beyond = bytes > tracked ? bytes - tracked : 0;
        if (is_quiet && before == atomic_load(&changes)) {
            share_set_overhead(row, beyond);
            return;
        }
        /* Other threads allocate: what they have charged may not be on the device yet, so this may be too little. */
        if (tries == TRIES_MAX) {
            if (beyond > share_own_overhead(row))
                share_set_overhead(row, beyond);
            return;
        }
    }
}

static bool refresh(int row, uint64_t period_ns) {
    if (pthread_mutex_trylock(&measuring) != 0)
        return false; /* another thread is at it */
    uint64_t before = atomic_load(&measured_at[row]);
    bool is_due = before == 0 || coarse_ns() - before >= period_ns;
    if (is_due) {
        measure(row);
        atomic_store(&measured_at[row], coarse_ns());
    }
    pthread_mutex_unlock(&measuring);
    return is_due;
}

void overhead_refresh_if_due(int row, uint64_t bytes) {
    uint64_t limit = share_limit(row);
    uint64_t use = atomic_load_explicit(&last_use[row], memory_order_relaxed);
    bool is_near = bytes > limit || use > limit - bytes || use + bytes > limit - limit / 16;
    uint64_t period_ns = is_near ? OFTEN_NS : SELDOM_NS;
    uint64_t before = atomic_load_explicit(&measured_at[row], memory_order_relaxed);
    if (before == 0 || coarse_ns() - before >= period_ns)
        refresh(row, period_ns);
}

bool overhead_refresh(int row) {
    return refresh(row, OFTEN_NS);
}

void overhead_forget(void) {
    for (int row = 0; row < DEVICES_MAX; row++)
        atomic_store(&measured_at[row], 0);
}

void overhead_note_use(int row, uint64_t use) {
    atomic_store_explicit(&last_use[row], use, memory_order_relaxed);
}

void overhead_after_fork(void) {
    measuring = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    atomic_store(&changes, 0);
    changes_of_thread = 0;
    was_tried = false;
    list_processes = NULL;
    memset(handles, 0, sizeof handles);
    overhead_forget();
}
