/* Threads that do what can wait. */
#ifndef TRIDENT_OS_THREAD_H
#define TRIDENT_OS_THREAD_H

#ifdef __cplusplus
extern "C" {
#endif

/* From here on the calling thread takes the processor from nobody who needs it. Where the system
 * does not let it, nothing changes. */
void thread_step_back(void);

#ifdef __cplusplus
}
#endif

#endif
