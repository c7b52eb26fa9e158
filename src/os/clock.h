/* The clock that only runs forward. */
#ifndef TRIDENT_OS_CLOCK_H
#define TRIDENT_OS_CLOCK_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t clock_us(void); /* since some moment in the past; never 0 */
double clock_seconds(void);
void clock_sleep_us(uint64_t us);

/* So long from now, for pthread_cond_timedwait() of a condition on CLOCK_MONOTONIC. */
struct timespec clock_after_ms(uint32_t ms);

#ifdef __cplusplus
}
#endif

#endif
