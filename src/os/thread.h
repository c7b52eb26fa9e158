/* Where a thread runs, and before whom. */
#ifndef TRIDENT_OS_THREAD_H
#define TRIDENT_OS_THREAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The processor that the calling thread is on, for a guess: it may be on another one already. */
uint32_t thread_cpu(void);

/* Moves the calling thread to a processor that is none of these, if it may run on such a one. Where
 * it may run is the same afterwards; who changes that at the same moment may be overruled. On a
 * machine of more than CPU_SETSIZE processors it stays. */
void thread_move_off(const uint32_t *cpus, size_t count);

/* Lets who waits for this processor go first. */
void thread_yield(void);

/* From here on the calling thread takes the processor from nobody who needs it. Where the system
 * does not let it, nothing changes. */
void thread_step_back(void);

#ifdef __cplusplus
}
#endif

#endif
