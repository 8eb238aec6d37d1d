/* The share file: limits and use of one share, mapped by all of its processes.
 *
 * A launcher creates it; this library never does. Fixed-width little-endian fields, no pointers, no locks inside: a
 * process holds a kernel lock on the byte of its slot for as long as it lives, and the kernel drops it at death. The
 * same layout is written in Python, in src/fairpool/agent/fractions/share_file.py; a test compares both. */
#ifndef GPUFRAC_SHARE_H
#define GPUFRAC_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARE_MAGIC "GPUFRAC"
#define SHARE_VERSION 1u
enum { DEVICES_MAX = 16, SLOTS_MAX = 256, UUID_BYTES = 48 };
enum { SLOT_LOCKS_AT = 1 << 20 }; /* beyond the end of the file, where locks are allowed too */

enum { STATE_NOT_READY = 0, STATE_READY = 1 };
enum { FLAG_MAY_DISABLE = 1 };
enum { MODE_OFF = 0, MODE_STRICT = 1, MODE_FAIR = 2 };
enum { SLOT_FREE = 0, SLOT_LIVE = 1 };

struct share_device {
    char uuid[UUID_BYTES];
    _Atomic uint64_t limit_bytes; /* may change while processes run */
    _Atomic uint64_t request_bytes;
    uint32_t fraction_milli;
    uint32_t mode;
    _Atomic uint64_t context_bytes; /* of a process that the driver does not list; 0: not known */
    uint8_t reserved[48];
};

struct share_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t file_bytes;
    _Atomic uint64_t generation;
    _Atomic uint32_t state;
    uint32_t device_count;
    uint32_t slot_count;
    uint32_t flags;
    _Atomic uint32_t slots_used; /* 1 + the highest slot that was ever taken: no sum looks further */
    uint32_t reserved_word;
    char name[64];
    uint8_t reserved[8];
    struct share_device devices[DEVICES_MAX];
    uint8_t rest[4096 - 128 - DEVICES_MAX * 128];
};

/* What one process has of one device. Only that process writes it, except to clear the slot of a dead one. */
struct slot_device {
    _Atomic uint64_t tracked;         /* allocated through hooked calls */
    _Atomic uint64_t overhead;        /* what the driver reports beyond that: context, modules, workspaces */
    _Atomic uint64_t pending;         /* asked for, not yet granted */
    _Atomic uint64_t peak;            /* of tracked + overhead */
    _Atomic uint64_t refusals;        /* by the share */
    _Atomic uint64_t driver_refusals; /* the card itself was full */
    _Atomic uint64_t launches;
    _Atomic uint64_t blocked_ns;
};

struct slot {
    _Atomic uint32_t state;
    _Atomic uint32_t pid;
    _Atomic uint32_t host_pid; /* written by an agent where the driver knows another number */
    _Atomic uint32_t underflows;
    _Atomic uint64_t started; /* in clock ticks since boot, as in /proc */
    char program[16];
    uint8_t reserved[24];
    struct slot_device devices[DEVICES_MAX];
};

_Static_assert(sizeof(struct share_device) == 128, "layout of the share file");
_Static_assert(sizeof(struct share_header) == 4096, "layout of the share file");
_Static_assert(sizeof(struct slot) == 64 + DEVICES_MAX * 64, "layout of the share file");
#define SHARE_BYTES (sizeof(struct share_header) + SLOTS_MAX * sizeof(struct slot))

/* Whether limits can be seen: the file is there and valid. No slot is taken, so nvidia-smi may call it. */
bool share_is_visible(void);

/* Whether this process is limited: the file is valid and it has a slot. False: everything is passed through. */
bool share_enforces(void);

/* Why limits cannot be enforced although a share was given, or NULL. */
const char *share_failure(void);

int share_device_count(void);
const char *share_device_uuid(int row);
/* The row of a device by its UUID as text, or -1: it is not in the share. */
int share_row_of(const char *uuid);
uint64_t share_limit(int row);
uint64_t share_context_bytes(int row);
unsigned share_driver_pid(void);

/* What all live processes of the share have of a device. */
uint64_t share_use(int row);
/* What this process has of it. */
uint64_t share_own_tracked(int row);
uint64_t share_own_overhead(int row);

/* Take memory from the share before the driver is asked for it. False: it does not fit. */
bool share_charge(int row, uint64_t bytes);
/* Give it back. Never falls below zero. */
void share_discharge(int row, uint64_t bytes);
/* Replace one amount by another that is already taken on the device: the truth may pass the limit. */
void share_correct(int row, uint64_t from, uint64_t to);
void share_set_overhead(int row, uint64_t bytes);
void share_count_driver_refusal(int row);
void share_count_refusal(int row, uint64_t bytes);

/* Live processes of the share with memory on a device. Returns how many there are, which may be more than `room`. */
struct share_process {
    uint32_t pid;
    uint64_t bytes;
};
unsigned share_processes(int row, struct share_process *found, unsigned room);
bool share_has_pid(uint32_t pid);

#endif
