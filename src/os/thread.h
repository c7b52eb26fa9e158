/* Where a thread runs, and before whom. */
#ifndef TRIDENT_OS_THREAD_H
#define TRIDENT_OS_THREAD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The processor that the calling thread is on, for a guess: it may be on another one already. */
uint32_t thread_cpu(void);

/* From here on the calling thread takes the processor from nobody who needs it. Where the system
 * does not let it, nothing changes. */
void thread_step_back(void);

#ifdef __cplusplus
}
#endif

#endif
