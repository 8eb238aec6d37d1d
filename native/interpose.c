/* Every way in which a program gets the address of a driver function ends in ours: the loader (names are exported),
 * dlsym, dlvsym, and cuGetProcAddress.
 *
 * The real dlsym finds its caller by the return address, so that RTLD_NEXT works. Ours therefore jumps there instead of
 * calling it, in a few lines of assembly. What cuGetProcAddress returns is compared by address: the driver returns the
 * same ones that it exports, so every version of a name is matched with its own variant, and a version that we do not
 * know is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpufrac.h"
#include "hooks.h"

OLDEST_VERSION(dlopen);

#define X(name, known_as, since, is_twin) extern CUresult name();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunknown-warning-option"
#pragma clang diagnostic ignored "-Wdeprecated-non-prototype"
#endif
HOOKS(X)
#undef X
#pragma GCC diagnostic pop

struct row {
    const char *name;
    void *hook;
    const char *known_as;
    int since;
    bool is_twin;
};

static const struct row rows[HOOK_COUNT] = {
#define X(name, known_as, since, is_twin) {#name, (void *)name, known_as, since, is_twin},
    HOOKS(X)
#undef X
};

static _Atomic(void *) reals[HOOK_COUNT];
static _Atomic(void *) libnvml;
static _Atomic bool has_nvml;
struct driver driver_functions;
_Atomic bool has_driver_functions;
static bool returns_exported = true; /* cuGetProcAddress gives the addresses that dlsym gives */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

typedef void *(*dlsym_function)(void *, const char *);
__attribute__((visibility("hidden"))) void *gpufrac_real_dlsym;
__attribute__((visibility("hidden"))) void *gpufrac_real_dlvsym;

/* --- the real dlsym, from glibc's own tables: any other way to ask for it would find ours ----------------------------- */

#ifndef GPUFRAC_WITHOUT_DLSYM
static const char *absolute(const struct link_map *map, ElfW(Addr) address) {
    return (const char *)(address < map->l_addr ? address + map->l_addr : address);
}

static void *symbol_in(const struct link_map *map, const char *name) {
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const uint32_t *hash = NULL;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            symbols = (const ElfW(Sym) *)absolute(map, entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB)
            names = absolute(map, entry->d_un.d_ptr);
        if (entry->d_tag == DT_GNU_HASH)
            hash = (const uint32_t *)absolute(map, entry->d_un.d_ptr);
    }
    if (symbols == NULL || names == NULL || hash == NULL)
        return NULL;
    uint32_t bucket_count = hash[0], first = hash[1], bloom = hash[2];
    const uint32_t *buckets = hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chains = buckets + bucket_count;
    for (uint32_t bucket = 0; bucket < bucket_count; bucket++) {
        for (uint32_t index = buckets[bucket]; index >= first && index != 0; index++) {
            const ElfW(Sym) *symbol = &symbols[index];
            bool is_function = (symbol->st_info & 0xf) == STT_FUNC && symbol->st_value != 0;
            if (is_function && strcmp(names + symbol->st_name, name) == 0)
                return (char *)map->l_addr + symbol->st_value;
            if (chains[index - first] & 1)
                break;
        }
    }
    return NULL;
}
#endif

#ifdef GPUFRAC_WITHOUT_DLSYM
/* Sanitizers look up their functions before any code that they have instrumented may run. */
static void find_real_dlsym(void) {
    gpufrac_real_dlsym = (void *)dlsym;
    gpufrac_real_dlvsym = (void *)dlvsym;
}
#else
static bool is_glibc(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    return strcmp(name, "libc.so.6") == 0 || strcmp(name, "libdl.so.2") == 0; /* the second before glibc 2.34 */
}

/* The loader's list, and not dlopen: an allocator may call dlsym from its first malloc, and dlopen allocates. */
static void find_real_dlsym(void) {
    for (const struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next) {
        if (map->l_name == NULL || !is_glibc(map->l_name))
            continue;
        if (gpufrac_real_dlsym == NULL)
            gpufrac_real_dlsym = symbol_in(map, "dlsym");
        if (gpufrac_real_dlvsym == NULL)
            gpufrac_real_dlvsym = symbol_in(map, "dlvsym");
    }
    if (gpufrac_real_dlsym == NULL || gpufrac_real_dlvsym == NULL)
        abort(); /* no process could look up a symbol any more; not possible with a glibc that could load us */
}
#endif

__attribute__((constructor)) static void prepare(void) {
    find_real_dlsym();
}

static void *real_dlsym(void *handle, const char *name) {
    if (gpufrac_real_dlsym == NULL) /* another library's constructor came first */
        find_real_dlsym();
    return ((dlsym_function)gpufrac_real_dlsym)(handle, name);
}

/* --- the driver's functions ---------------------------------------------------------------------------------------------- */

static bool is_own(const void *function) {
    for (int i = 0; i < HOOK_COUNT; i++)
        if (rows[i].hook == function)
            return true;
    return false;
}

static struct driver found_in(void *library) {
    struct driver found;
#define X(name, suffix, arguments) found.name = (CUresult(*) arguments)real_dlsym(library, #name suffix);
    DRIVER_FUNCTIONS(X)
#undef X
    if (found.cuDeviceGetUuid == NULL) /* drivers before CUDA 11.4 */
        found.cuDeviceGetUuid = (CUresult(*)(CUuuid *, CUdevice))real_dlsym(library, "cuDeviceGetUuid");
    return found;
}

/* Whether cuGetProcAddress gives the addresses that dlsym gives. */
static bool gives_exported(void *library) {
    void *direct = real_dlsym(library, "cuLaunchKernel"), *asked = NULL;
    CUresult (*ask)(const char *, void **, int, uint64_t, int *) = atomic_load(&reals[HOOK_cuGetProcAddress_v2]);
    int status = 0;
    if (ask == NULL || direct == NULL || ask("cuLaunchKernel", &asked, 12000, 0, &status) != CUDA_SUCCESS)
        return true;
    return asked == direct;
}

static void load(bool is_nvml) {
    _Atomic bool *is_loaded = is_nvml ? &has_nvml : &has_driver_functions;
    if (atomic_load_explicit(is_loaded, memory_order_acquire))
        return;
    /* No lock of ours is held here: dlopen and dlsym take the loader's, and constructors that run under it may come here
     * too. What two threads find at the same time is the same. */
    void *library = dlopen(is_nvml ? "libnvidia-ml.so.1" : "libcuda.so.1", RTLD_LAZY | RTLD_NODELETE);
    if (library == NULL)
        return;
    for (int i = 0; i < HOOK_COUNT; i++) {
        void *found = (rows[i].name[0] == 'n') == is_nvml ? real_dlsym(library, rows[i].name) : NULL;
        if (found != NULL && !is_own(found)) /* recording our own as real would recurse for ever */
            atomic_store(&reals[i], found);
    }
    struct driver functions = is_nvml ? (struct driver){0} : found_in(library);
    bool is_exported = is_nvml || gives_exported(library);
    pthread_mutex_lock(&loading);
    if (!atomic_load(is_loaded)) {
        if (is_nvml) {
            atomic_store(&libnvml, library);
        } else {
            driver_functions = functions;
            returns_exported = is_exported;
        }
        atomic_store_explicit(is_loaded, true, memory_order_release);
    }
    pthread_mutex_unlock(&loading);
}

void interpose_after_fork(void) {
    loading = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

void *real_function(enum hook hook) {
    void *real = atomic_load_explicit(&reals[hook], memory_order_relaxed);
    if (real == NULL) {
        load(rows[hook].name[0] == 'n');
        real = atomic_load(&reals[hook]);
    }
    return real;
}

void find_driver(void) {
    load(false);
}

void *nvml_symbol(const char *name) {
    load(true);
    void *library = atomic_load(&libnvml);
    return library != NULL ? real_dlsym(library, name) : NULL;
}

/* --- dlsym, dlvsym --------------------------------------------------------------------------------------------------------- */

static int hook_named(const char *name) {
    for (int i = 0; i < HOOK_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0)
            return i;
    return -1;
}

/* Our function for a symbol, or NULL: the real dlsym shall answer. */
__attribute__((visibility("hidden"), used)) void *gpufrac_found(void *handle, const char *name) {
    if (gpufrac_real_dlsym == NULL)
        find_real_dlsym();
    if (name == NULL || handle == RTLD_NEXT || (strncmp(name, "cu", 2) != 0 && strncmp(name, "nvml", 4) != 0))
        return NULL;
    int hook = hook_named(name);
    if (hook < 0)
        return NULL;
    void *found = real_dlsym(handle, name);
    if (found == NULL || found == rows[hook].hook)
        return found; /* NULL: asked again by the real one, which then leaves its error for dlerror */
    /* A function of that name in a library that is not the driver's is not ours to replace. */
    return found == real_function((enum hook)hook) ? rows[hook].hook : NULL;
}

#if defined(GPUFRAC_WITHOUT_DLSYM)
#elif defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n.type dlsym,@function\n"
        "dlsym:\n"
        "  push %rdi\n  push %rsi\n  sub $8,%rsp\n"
        "  call gpufrac_found\n"
        "  add $8,%rsp\n  pop %rsi\n  pop %rdi\n"
        "  test %rax,%rax\n  jnz 1f\n"
        "  jmp *gpufrac_real_dlsym(%rip)\n"
        "1: ret\n"
        ".size dlsym,.-dlsym\n"
        ".globl dlvsym\n.type dlvsym,@function\n"
        "dlvsym:\n"
        "  push %rdi\n  push %rsi\n  push %rdx\n"
        "  call gpufrac_found\n"
        "  pop %rdx\n  pop %rsi\n  pop %rdi\n"
        "  test %rax,%rax\n  jnz 1f\n"
        "  jmp *gpufrac_real_dlvsym(%rip)\n"
        "1: ret\n"
        ".size dlvsym,.-dlvsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlsym\n.type dlsym,%function\n"
        "dlsym:\n"
        "  stp x29,x30,[sp,#-32]!\n  stp x0,x1,[sp,#16]\n"
        "  bl gpufrac_found\n"
        "  mov x9,x0\n  ldp x0,x1,[sp,#16]\n  ldp x29,x30,[sp],#32\n"
        "  cbnz x9,1f\n"
        "  adrp x9,gpufrac_real_dlsym\n  ldr x9,[x9,:lo12:gpufrac_real_dlsym]\n  br x9\n"
        "1: mov x0,x9\n  ret\n"
        ".size dlsym,.-dlsym\n"
        ".globl dlvsym\n.type dlvsym,%function\n"
        "dlvsym:\n"
        "  stp x29,x30,[sp,#-48]!\n  stp x0,x1,[sp,#16]\n  str x2,[sp,#32]\n"
        "  bl gpufrac_found\n"
        "  mov x9,x0\n  ldr x2,[sp,#32]\n  ldp x0,x1,[sp,#16]\n  ldp x29,x30,[sp],#48\n"
        "  cbnz x9,1f\n"
        "  adrp x9,gpufrac_real_dlvsym\n  ldr x9,[x9,:lo12:gpufrac_real_dlvsym]\n  br x9\n"
        "1: mov x0,x9\n  ret\n"
        ".size dlvsym,.-dlvsym\n");
#else
#error "only x86-64 and AArch64 are supported"
#endif

/* --- cuGetProcAddress -------------------------------------------------------------------------------------------------------- */

/* Where the driver returns addresses that it does not export: the newest variant of that name up to the version. */
static int hook_known_as(const char *name, int version, bool is_twin) {
    int best = -1;
    for (int i = 0; i < HOOK_COUNT; i++) {
        bool is_newer = best < 0 || rows[i].since > rows[best].since;
        if (strcmp(rows[i].known_as, name) == 0 && rows[i].since <= version && rows[i].is_twin == is_twin && is_newer)
            best = i;
    }
    return best < 0 && is_twin ? hook_known_as(name, version, false) : best;
}

static void replace(const char *name, void **function, int version, uint64_t flags) {
    if (function == NULL || *function == NULL || is_own(*function))
        return;
    load(false);
    for (int i = 0; i < HOOK_COUNT; i++) {
        if (atomic_load(&reals[i]) == *function) {
            *function = rows[i].hook;
            return;
        }
    }
    if (returns_exported || name == NULL)
        return;
    int hook = hook_known_as(name, version, (flags & 2) != 0); /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
    if (hook < 0)
        return;
    report(LOG_INFO, "%s matched by name", rows[hook].name);
    atomic_store(&reals[hook], *function);
    *function = rows[hook].hook;
}

EXPORTED CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    CUresult (*real)(const char *, void **, int, uint64_t) = real_function(HOOK_cuGetProcAddress);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = real(name, function, version, flags);
    if (result == CUDA_SUCCESS)
        replace(name, function, version, flags);
    return result;
}

EXPORTED CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    CUresult (*real)(const char *, void **, int, uint64_t, int *) = real_function(HOOK_cuGetProcAddress_v2);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = real(name, function, version, flags, status);
    if (result == CUDA_SUCCESS)
        replace(name, function, version, flags);
    return result;
}
