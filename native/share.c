/* The share file: opening it, a slot for this process, and charges.
 *
 * Charges need no lock. A process announces what it asks for in its own slot (`pending`), sums all live slots, and takes
 * it (`tracked`) if the sum is within the limit. It writes to no other slot, so a crash at any instruction leaves at
 * most its own slot wrong, and that slot dies with it. Two processes that ask at the same moment may both see a sum
 * above the limit; both withdraw, and the one in the lower slot tries again first. */
#define _GNU_SOURCE
#include "share.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "gpufrac.h"

OLDEST_VERSION(dladdr);

enum { NFS_MAGIC = 0x6969 };
enum { TRIES_MAX = 4000, WAIT_READY_MS = 10000 }; /* about two seconds of collisions */

enum phase { UNKNOWN, PASSING, VISIBLE, ENFORCING };

static _Atomic int phase;
static pthread_mutex_t setup = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t reaping = PTHREAD_MUTEX_INITIALIZER;
static struct share_header *header;
static struct slot *slots;
static struct slot *own;
static int own_index = -1;
static int share_fd = -1;
/* Copied when the file was opened: what another process writes there later must not become an index. */
static int device_count;
static char uuids[DEVICES_MAX][UUID_BYTES];
static const char *failure;

static uint64_t plus(uint64_t left, uint64_t right) {
    uint64_t sum;
    return __builtin_add_overflow(left, right, &sum) ? UINT64_MAX : sum;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static int lock_slot(int index, short type) {
    /* The system call itself: glibc 2.28 gave `fcntl` another version. */
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = SLOT_LOCKS_AT + index, .l_len = 1};
    return (int)syscall(SYS_fcntl, share_fd, F_OFD_SETLK, &lock);
}

static bool path_of_share(char *path, size_t room) {
    const char *given = getenv("GPUFRAC_SHARE");
    if (given != NULL && given[0] != '\0')
        return (size_t)snprintf(path, room, "%s", given) < room;
    /* Sessions without our variables (ssh, su, cron) find the share of their container beside the library. */
    Dl_info self;
    if (dladdr((void *)&phase, &self) == 0 || self.dli_fname == NULL)
        return false;
    const char *slash = strrchr(self.dli_fname, '/');
    int length = slash != NULL ? (int)(slash - self.dli_fname) : 0;
    int written = snprintf(path, room, "%.*s/gpufrac.share", length, self.dli_fname);
    return slash != NULL && (size_t)written < room && access(path, F_OK) == 0;
}

static const char *invalid(const struct share_header *found, off_t size) {
    if (size != (off_t)SHARE_BYTES || memcmp(found->magic, SHARE_MAGIC, sizeof SHARE_MAGIC) != 0)
        return "it is not a share file";
    if (found->version != SHARE_VERSION || found->header_bytes != sizeof *found || found->file_bytes != SHARE_BYTES)
        return "it has another layout version";
    if (found->device_count == 0 || found->device_count > DEVICES_MAX || found->slot_count != SLOTS_MAX)
        return "its counts of devices or slots are wrong";
    return NULL;
}

static const char *map_share(const char *path) {
    share_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (share_fd < 0)
        return strerror(errno);
    struct statfs filesystem;
    if (fstatfs(share_fd, &filesystem) == 0 && filesystem.f_type == NFS_MAGIC)
        return "it is on NFS, where locks do not end with their process";
    off_t size = lseek(share_fd, 0, SEEK_END);
    if (size != (off_t)SHARE_BYTES)
        return "it is not a share file";
    void *mapped = mmap(NULL, SHARE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, share_fd, 0);
    if (mapped == MAP_FAILED)
        return strerror(errno);
    const char *why = invalid(mapped, size);
    if (why != NULL) {
        munmap(mapped, SHARE_BYTES);
        return why;
    }
    header = mapped;
    slots = (struct slot *)((char *)mapped + sizeof *header);
    return NULL;
}

static const char *wait_until_ready(void) {
    for (int waited = 0; atomic_load(&header->state) != STATE_READY; waited += 5) {
        if (waited >= WAIT_READY_MS)
            return "it was not made ready within 10 s";
        sleep_ns(5000000);
    }
    return NULL;
}

static void after_fork(void) {
    /* The lock belongs to the open file, which the parent has too: closing ours changes nothing for it. */
    if (share_fd >= 0)
        close(share_fd);
    if (header != NULL)
        munmap(header, SHARE_BYTES);
    share_fd = -1;
    own_index = -1;
    header = NULL;
    slots = own = NULL;
    failure = NULL;
    setup = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    reaping = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    atomic_store(&phase, UNKNOWN);
    devices_after_fork();
    blocks_after_fork();
    overhead_after_fork();
    pools_after_fork();
    graphs_after_fork();
    interpose_after_fork();
}

static void open_share(void) {
    static bool is_registered;
    char path[4096];
    if (!is_registered) { /* first of all: a child that is forked while this waits would wait for ever */
        is_registered = true;
        pthread_atfork(NULL, NULL, after_fork);
    }
    if (!path_of_share(path, sizeof path)) {
        if (getenv("GPUFRAC_REQUIRE") != NULL)
            failure = "no share file is given";
        atomic_store(&phase, PASSING);
        return;
    }
    const char *why = map_share(path);
    if (why == NULL)
        why = wait_until_ready();
    if (why != NULL) {
        failure = why;
        report(LOG_WARNING, "GPU memory is not limited: %s: %s", path, why);
        atomic_store(&phase, PASSING);
        return;
    }
    device_count = (int)header->device_count;
    for (int row = 0; row < device_count; row++) {
        memcpy(uuids[row], header->devices[row].uuid, UUID_BYTES);
        uuids[row][UUID_BYTES - 1] = '\0';
    }
    const char *disable = getenv("GPUFRAC_DISABLE");
    bool is_disabled = disable != NULL && disable[0] == '1' && (header->flags & FLAG_MAY_DISABLE) != 0;
    atomic_store(&phase, is_disabled ? PASSING : VISIBLE);
}

/* --- the slot of this process ---------------------------------------------------------------------------------------- */

static void clear(struct slot *slot) {
    for (int row = 0; row < DEVICES_MAX; row++) {
        struct slot_device *device = &slot->devices[row];
        atomic_store(&device->pending, 0);
        atomic_store(&device->tracked, 0);
        atomic_store(&device->overhead, 0);
        atomic_store(&device->peak, 0);
        atomic_store(&device->refusals, 0);
        atomic_store(&device->driver_refusals, 0);
        atomic_store(&device->launches, 0);
        atomic_store(&device->blocked_ns, 0);
    }
    atomic_store(&slot->underflows, 0);
    atomic_store(&slot->host_pid, 0);
}

static uint64_t started_at(void) {
    /* Field 22 of /proc/self/stat; the program's name before it may contain anything but ends with the last ')'. */
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    uint64_t ticks = 0;
    for (at = at != NULL ? at + 1 : text + length; *at >= '0' && *at <= '9'; at++)
        ticks = ticks * 10 + (uint64_t)(*at - '0');
    return ticks;
}

static void name_slot(struct slot *slot) {
    char name[sizeof slot->program] = "";
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, name, sizeof name - 1) : 0;
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < length; i++)
        if (name[i] == '\n')
            name[i] = '\0';
    memcpy(slot->program, name, sizeof name);
    atomic_store(&slot->pid, (uint32_t)getpid());
    atomic_store(&slot->started, started_at());
}

/* Behind `reaping`: a thread of this process that reaps has the same open file, so our lock would not stop it. */
static void take_slot(void) {
    for (int index = 0; index < SLOTS_MAX; index++) {
        if (lock_slot(index, F_WRLCK) != 0)
            continue;
        struct slot *slot = &slots[index];
        clear(slot); /* a dead process may have left it as it was */
        name_slot(slot);
        uint32_t used = atomic_load(&header->slots_used);
        while (used < (uint32_t)index + 1 && !atomic_compare_exchange_weak(&header->slots_used, &used, index + 1)) {
        }
        own_index = index;
        own = slot;
        atomic_store(&slot->state, SLOT_LIVE);
        atomic_store(&phase, ENFORCING);
        return;
    }
    failure = "all 256 slots of the share are in use";
    report(LOG_WARNING, "GPU memory is not limited: %s", failure);
    atomic_store(&phase, PASSING);
}

static void claim_slot(void) {
    pthread_mutex_lock(&reaping);
    take_slot();
    pthread_mutex_unlock(&reaping);
}

bool share_is_visible(void) {
    int now = atomic_load_explicit(&phase, memory_order_acquire);
    if (now == UNKNOWN) {
        pthread_mutex_lock(&setup);
        if (atomic_load(&phase) == UNKNOWN)
            open_share();
        now = atomic_load(&phase);
        pthread_mutex_unlock(&setup);
    }
    return now >= VISIBLE;
}

bool share_enforces(void) {
    int now = atomic_load_explicit(&phase, memory_order_acquire);
    if (now == ENFORCING)
        return true;
    if (now == PASSING || !share_is_visible())
        return false;
    pthread_mutex_lock(&setup);
    if (atomic_load(&phase) == VISIBLE)
        claim_slot();
    now = atomic_load(&phase);
    pthread_mutex_unlock(&setup);
    return now == ENFORCING;
}

const char *share_failure(void) {
    return failure;
}

/* --- what is there ---------------------------------------------------------------------------------------------------- */

int share_device_count(void) {
    return device_count;
}

const char *share_device_uuid(int row) {
    return uuids[row];
}

int share_row_of(const char *uuid) {
    for (int row = 0; row < device_count; row++)
        if (strcmp(uuids[row], uuid) == 0)
            return row;
    return -1;
}

uint64_t share_limit(int row) {
    return atomic_load_explicit(&header->devices[row].limit_bytes, memory_order_relaxed);
}

uint64_t share_context_bytes(int row) {
    uint64_t given = atomic_load(&header->devices[row].context_bytes);
    uint64_t quarter = share_limit(row) / 4;
    uint64_t assumed = given != 0 ? given : 512 * MIB; /* 526 MiB on an H200; less on smaller devices */
    return assumed < quarter ? assumed : quarter;
}

unsigned share_driver_pid(void) {
    unsigned host = atomic_load(&own->host_pid);
    return host != 0 ? host : (unsigned)getpid();
}

static int slots_in_use(void) {
    uint32_t used = atomic_load(&header->slots_used);
    return used < SLOTS_MAX ? (int)used : SLOTS_MAX;
}

static uint64_t sum(int row, bool with_pending) {
    uint64_t total = 0;
    int count = slots_in_use();
    for (int i = 0; i < count; i++) {
        if (atomic_load(&slots[i].state) != SLOT_LIVE)
            continue;
        struct slot_device *device = &slots[i].devices[row];
        /* Pending first: an amount moves from there to `tracked`, and must not be missed in between. */
        if (with_pending)
            total = plus(total, atomic_load(&device->pending));
        total = plus(total, atomic_load(&device->tracked));
        total = plus(total, atomic_load(&device->overhead));
    }
    return total;
}

static int reap(void) {
    int reaped = 0;
    pthread_mutex_lock(&reaping);
    int count = slots_in_use();
    for (int i = 0; i < count; i++) {
        if (i == own_index || atomic_load(&slots[i].state) != SLOT_LIVE)
            continue;
        /* The lock is held while the slot is cleared: otherwise a new process could take it in between. */
        if (lock_slot(i, F_WRLCK) != 0)
            continue;
        clear(&slots[i]);
        atomic_store(&slots[i].state, SLOT_FREE);
        lock_slot(i, F_UNLCK);
        reaped++;
    }
    pthread_mutex_unlock(&reaping);
    return reaped;
}

uint64_t share_use(int row) {
    reap(); /* what a dead process had is free: programs decide by this figure how much they ask for */
    return sum(row, false);
}

uint64_t share_own_tracked(int row) {
    return atomic_load(&own->devices[row].tracked);
}

uint64_t share_own_overhead(int row) {
    return atomic_load(&own->devices[row].overhead);
}

unsigned share_processes(int row, struct share_process *found, unsigned room) {
    unsigned count = 0;
    int used = slots_in_use();
    reap();
    for (int i = 0; i < used; i++) {
        if (atomic_load(&slots[i].state) != SLOT_LIVE)
            continue;
        struct slot_device *device = &slots[i].devices[row];
        uint64_t bytes = plus(atomic_load(&device->tracked), atomic_load(&device->overhead));
        if (bytes == 0)
            continue;
        if (count < room)
            found[count] = (struct share_process){atomic_load(&slots[i].pid), bytes};
        count++;
    }
    return count;
}

bool share_has_pid(uint32_t pid) {
    int used = slots_in_use();
    for (int i = 0; i < used; i++)
        if (atomic_load(&slots[i].state) == SLOT_LIVE && atomic_load(&slots[i].pid) == pid)
            return true;
    return false;
}

/* --- charges ------------------------------------------------------------------------------------------------------------ */

static void decrease(_Atomic uint64_t *counter, uint64_t bytes) {
    uint64_t before = atomic_load(counter);
    while (!atomic_compare_exchange_weak(counter, &before, before > bytes ? before - bytes : 0)) {
    }
    if (before < bytes) {
        atomic_fetch_add(&own->underflows, 1);
        overhead_forget();
    }
}

static void raise_peak(struct slot_device *mine) {
    uint64_t now = plus(atomic_load(&mine->tracked), atomic_load(&mine->overhead));
    uint64_t peak = atomic_load_explicit(&mine->peak, memory_order_relaxed);
    while (peak < now && !atomic_compare_exchange_weak(&mine->peak, &peak, now)) {
    }
}

/* Take it if the sum of all processes stays within the limit. */
static bool try_charge(int row, uint64_t bytes) {
    struct slot_device *mine = &own->devices[row];
    atomic_fetch_add(&mine->pending, bytes);
    uint64_t use = sum(row, true);
    bool fits = use <= share_limit(row);
    if (fits) {
        atomic_fetch_add(&mine->tracked, bytes);
        raise_peak(mine);
        overhead_note_use(row, use);
    }
    atomic_fetch_sub(&mine->pending, bytes);
    return fits;
}

bool share_charge(int row, uint64_t bytes) {
    if (bytes > share_limit(row))
        return false;
    overhead_refresh_if_due(row, bytes);
    bool is_measured = false;
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        if (try_charge(row, bytes))
            return true;
        if (reap() > 0)
            continue;
        if (plus(sum(row, false), bytes) <= share_limit(row)) {
            /* Only requests of others that are not granted yet are in the way. Lower slots wait less. */
            uint64_t longer_ns = 10000ULL * (uint64_t)(tries / 8);
            sleep_ns(2000ULL * (uint64_t)(own_index + 1) + (longer_ns < 500000 ? longer_ns : 500000));
            continue;
        }
        if (is_measured || !overhead_refresh(row))
            return false;
        is_measured = true;
    }
    return false;
}

void share_discharge(int row, uint64_t bytes) {
    if (own != NULL && bytes != 0)
        decrease(&own->devices[row].tracked, bytes);
}

void share_correct(int row, uint64_t from, uint64_t to) {
    if (own == NULL)
        return;
    if (to > from) {
        atomic_fetch_add(&own->devices[row].tracked, to - from);
        raise_peak(&own->devices[row]);
    } else if (from > to) {
        decrease(&own->devices[row].tracked, from - to);
    }
}

void share_set_overhead(int row, uint64_t bytes) {
    atomic_store(&own->devices[row].overhead, bytes);
    raise_peak(&own->devices[row]);
}

void share_count_driver_refusal(int row) {
    atomic_fetch_add(&own->devices[row].driver_refusals, 1);
}

void share_count_refusal(int row, uint64_t bytes) {
    static _Atomic bool is_reported;
    atomic_fetch_add(&own->devices[row].refusals, 1);
    if (!atomic_exchange(&is_reported, true))
        report(LOG_WARNING, "out of GPU memory: %llu MiB asked for, %llu of the share's %llu MiB are in use",
               (unsigned long long)(bytes / MIB), (unsigned long long)(sum(row, false) / MIB),
               (unsigned long long)(share_limit(row) / MIB));
}
