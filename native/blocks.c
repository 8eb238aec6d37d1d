/* What is allocated, by address or handle: a hash table with striped locks, so that a free costs the same with ten
 * blocks and with a hundred thousand. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpufrac.h"

enum { BUCKETS = 1 << 16, STRIPES = 64, SPARE_MAX = 256 };

struct stripe {
    pthread_mutex_t lock;
    struct block *spare; /* freed entries, so that a pair of calls needs no malloc */
    int spares;
} __attribute__((aligned(64)));

static struct block *buckets[BUCKETS];
static struct stripe stripes[STRIPES] = {[0 ... STRIPES - 1] = {PTHREAD_MUTEX_INITIALIZER, NULL, 0}};

static unsigned bucket_of(enum block_kind kind, uint64_t key) {
    uint64_t mixed = (key ^ ((uint64_t)kind << 60)) * 0x9e3779b97f4a7c15ULL;
    return (unsigned)(mixed >> 48) & (BUCKETS - 1);
}

static struct stripe *lock_bucket(unsigned bucket) {
    struct stripe *stripe = &stripes[bucket % STRIPES];
    pthread_mutex_lock(&stripe->lock);
    return stripe;
}

static struct block **place_of(unsigned bucket, enum block_kind kind, uint64_t key) {
    struct block **place = &buckets[bucket];
    while (*place != NULL && ((*place)->key != key || (*place)->kind != kind))
        place = &(*place)->next;
    return place;
}

static void remove_at(struct stripe *stripe, struct block **place, struct block *taken) {
    struct block *entry = *place;
    *place = entry->next;
    *taken = *entry;
    if (stripe->spares < SPARE_MAX) {
        entry->next = stripe->spare;
        stripe->spare = entry;
        stripe->spares++;
    } else {
        free(entry);
    }
}

void blocks_put(const struct block *block) {
    unsigned bucket = bucket_of(block->kind, block->key);
    struct stripe *stripe = lock_bucket(bucket);
    struct block **place = place_of(bucket, block->kind, block->key);
    struct block *entry = *place;
    if (entry != NULL) { /* freed in a way that we do not see, and given out again */
        if (entry->row >= 0)
            share_discharge(entry->row, entry->bytes);
        struct block *next = entry->next;
        *entry = *block;
        entry->next = next;
    } else {
        entry = stripe->spare;
        if (entry != NULL) {
            stripe->spare = entry->next;
            stripe->spares--;
        } else {
            entry = malloc(sizeof *entry);
        }
        /* Without memory the block stays charged until the process ends: too much, never too little. */
        if (entry != NULL) {
            *entry = *block;
            entry->next = buckets[bucket];
            buckets[bucket] = entry;
        }
    }
    pthread_mutex_unlock(&stripe->lock);
}

bool blocks_take(enum block_kind kind, uint64_t key, struct block *taken) {
    unsigned bucket = bucket_of(kind, key);
    struct stripe *stripe = lock_bucket(bucket);
    struct block **place = place_of(bucket, kind, key);
    bool is_there = *place != NULL;
    if (is_there)
        remove_at(stripe, place, taken);
    pthread_mutex_unlock(&stripe->lock);
    return is_there;
}

bool blocks_find(enum block_kind kind, uint64_t key, struct block *found) {
    unsigned bucket = bucket_of(kind, key);
    struct stripe *stripe = lock_bucket(bucket);
    struct block *entry = *place_of(bucket, kind, key);
    if (entry != NULL)
        *found = *entry;
    pthread_mutex_unlock(&stripe->lock);
    return entry != NULL;
}

void blocks_retain(enum block_kind kind, uint64_t key) {
    unsigned bucket = bucket_of(kind, key);
    struct stripe *stripe = lock_bucket(bucket);
    struct block *entry = *place_of(bucket, kind, key);
    if (entry != NULL)
        entry->references++;
    pthread_mutex_unlock(&stripe->lock);
}

bool blocks_release(enum block_kind kind, uint64_t key, struct block *taken) {
    unsigned bucket = bucket_of(kind, key);
    struct stripe *stripe = lock_bucket(bucket);
    struct block **place = place_of(bucket, kind, key);
    bool is_last = *place != NULL && --(*place)->references == 0;
    if (is_last)
        remove_at(stripe, place, taken);
    pthread_mutex_unlock(&stripe->lock);
    return is_last;
}

void blocks_drop_context(void *context) {
    if (context == NULL)
        return;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        struct stripe *stripe = lock_bucket(bucket);
        struct block **place = &buckets[bucket];
        while (*place != NULL) {
            if ((*place)->context != context) {
                place = &(*place)->next;
                continue;
            }
            struct block dropped;
            remove_at(stripe, place, &dropped);
            if (dropped.row >= 0)
                share_discharge(dropped.row, dropped.bytes);
        }
        pthread_mutex_unlock(&stripe->lock);
    }
}

void blocks_after_fork(void) {
    /* Another thread of the parent may have held a lock. What the parent allocated is not this process's. */
    for (int i = 0; i < STRIPES; i++)
        stripes[i] = (struct stripe){PTHREAD_MUTEX_INITIALIZER, NULL, 0};
    memset(buckets, 0, sizeof buckets);
}
