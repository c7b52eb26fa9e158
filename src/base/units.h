/* Quantities as people write them: 2MB, 10Gbit, 50us, 4TFLOP/s. */
#ifndef TRIDENT_BASE_UNITS_H
#define TRIDENT_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each parser takes the whole of text and returns false, leaving *out alone, on
 * anything else than a finite, non-negative quantity of its kind. Signs, hex,
 * white space around and leading '+' are refused. */

bool units_count(const char *text, uint64_t *out);   /* 32 */
bool units_number(const char *text, double *out);    /* 0.5, 1e-3 */
bool units_size(const char *text, uint64_t *bytes);  /* 4096, 64KiB, 2MB: kB is 1000, KiB 1024 */
bool units_rate(const char *text, double *bits_s);   /* 10Gbit, 10Gbit/s, 10Gbps, 1.25GB/s */
bool units_time(const char *text, double *seconds);  /* 0, 50us, 2ms, 3s */
bool units_flops(const char *text, double *flops_s); /* 1e11, 100G, 4.2TFLOP/s */

/* Texts for people: three significant digits, SI prefixes. Each fills `out` and
 * returns it, so that several fit into one printf. */
enum { UNITS_TEXT = 24 };
char *units_show_count(double count, char out[UNITS_TEXT]);   /* 144 M */
char *units_show_bytes(double bytes, char out[UNITS_TEXT]);   /* 2.1 MB */
char *units_show_rate(double bits_s, char out[UNITS_TEXT]);   /* 10 Gbit/s */
char *units_show_time(double seconds, char out[UNITS_TEXT]);  /* 1.25 ms */
char *units_show_flops(double flops_s, char out[UNITS_TEXT]); /* 4.18 TFLOP/s */

#ifdef __cplusplus
}
#endif

#endif
