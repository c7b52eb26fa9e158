/* Loading OpenBLAS and telling it what processor this is. */
#include "bench/openblas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libopenblas.so.0"

/* The best kernels this processor can run. OpenBLAS looks at the model, and takes
 * those for SSE3 when it does not know it: a fifth of the speed, and no baseline. */
static const char *core_type(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return __builtin_cpu_is("amd") ? "Zen" : "Haswell";
#endif
    return NULL;
}

static tri_status not_usable(tri_error *err, const char *why)
{
    fail(err, TRI_EIO, "cannot load the baseline, '%s'", LIBRARY);
    fail_why(err, "%s", why);
    fail_next(err, "install it: apt-get install libopenblas0-pthread");
    return TRI_EIO;
}

tri_status openblas_open(struct openblas *blas, tri_error *err)
{
    /* Read once, while the library is loaded; what the user has set stays. */
    const char *core = core_type();
    if (core != NULL)
        (void)setenv("OPENBLAS_CORETYPE", core, 0);
    (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
    blas->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (blas->library == NULL)
        return not_usable(err, dlerror());
    blas->sgemm = (openblas_sgemm *)dlsym(blas->library, "cblas_sgemm");
    void (*set_threads)(int) = (void (*)(int))dlsym(blas->library, "openblas_set_num_threads");
    char *(*config)(void) = (char *(*)(void))dlsym(blas->library, "openblas_get_config");
    char *(*corename)(void) = (char *(*)(void))dlsym(blas->library, "openblas_get_corename");
    if (blas->sgemm == NULL || set_threads == NULL || config == NULL || corename == NULL) {
        openblas_close(blas);
        return not_usable(err, "it lacks a function that OpenBLAS has");
    }
    set_threads(1);
    /* The first two words of the configuration are name and version. */
    const char *name = config(), *space = strchr(name, ' ');
    size_t len = space != NULL ? (size_t)(space - name) + 1 : 0;
    len += strcspn(name + len, " ");
    (void)snprintf(blas->text, sizeof blas->text, "%.*s, core type %s, 1 thread", (int)len, name,
                   corename());
    return TRI_OK;
}

void openblas_close(struct openblas *blas)
{
    (void)dlclose(blas->library);
}
