/* Ways to write w -= lr g, as GaDei tried them: one table. */
#ifndef TRIDENT_BENCH_LOCAL_KERNELS_H
#define TRIDENT_BENCH_LOCAL_KERNELS_H

#include <stddef.h>

/* Measures for about two seconds, all ways by turns, and writes the table; less when memory is
 * refused. */
void local_kernels_table(char *out, size_t cap);

#endif
