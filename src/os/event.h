/* Event counts: waiting for a change in shared memory without a lock.
 *
 * An event is one 32-bit word, zero at the start, which any number of threads of any number of
 * processes wait on. The waiter looks, takes a key, looks again, and sleeps unless something has
 * happened since the key was taken:
 *
 *     for (;;) {
 *         if (ready()) break;
 *         uint32_t key = event_key(event);
 *         if (ready()) break;
 *         event_wait(event, key, 100);
 *     }
 *
 * and who makes it ready calls event_wake() afterwards. The lowest bit says that somebody may be
 * asleep, the others count. A process that dies here leaves at worst that bit, which costs one
 * needless call, or a wake-up that was due: therefore every wait has a time. (Condition variables
 * that processes share have no such limit: one waiter killed at the wrong moment hangs the next
 * signal.) */
#ifndef TRIDENT_OS_EVENT_H
#define TRIDENT_OS_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint32_t event_key(uint32_t *event);

/* Sleeps until event_wake() comes after the key was taken, for at most so long. False: the time is
 * up. It may come back early for no reason. */
bool event_wait(uint32_t *event, uint32_t key, uint32_t timeout_ms);

/* Wakes all that sleep. What was written before is seen by those who look after waking, and by
 * those who take a key later. No system call when nobody waits. True: somebody may have slept. */
bool event_wake(uint32_t *event);

/* A few processor cycles' rest, for who looks again in a moment. */
void event_pause(void);

#ifdef __cplusplus
}
#endif

#endif
