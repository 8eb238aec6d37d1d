/* Time. */
#define _GNU_SOURCE
#include <time.h>

#include "gpufrac.h"

uint64_t coarse_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

void sleep_ns(uint64_t ns) {
    struct timespec rest = {(time_t)(ns / 1000000000ULL), (long)(ns % 1000000000ULL)};
    nanosleep(&rest, NULL);
}
