/* CRC-32C (Castagnoli), the checksum of iSCSI (RFC 3720) and of our records.
 *
 * It finds every burst of up to 32 wrong bits and all but one in 2^32 other
 * accidents. It is no protection against intent. All calls are pure and may be
 * made from any thread; none allocates or fails. */
#ifndef TRIDENT_BASE_CRC32C_H
#define TRIDENT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The checksum of len_bytes bytes behind those that `crc` already covers; start
 * with 0. So crc32c(crc32c(0, a), b) is the checksum of a followed by b. Data
 * need not be aligned, and may be NULL when there is none. Uses the processor's
 * CRC instruction where there is one. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len_bytes);

/* The same result from tables alone: what crc32c() falls back on, and what tests
 * and benchmarks hold against it. */
uint32_t crc32c_table(uint32_t crc, const void *data, size_t len_bytes);

/* How crc32c() works here: "sse4.2", "armv8" or "table". Static storage. */
const char *crc32c_how(void);

#ifdef __cplusplus
}
#endif

#endif
