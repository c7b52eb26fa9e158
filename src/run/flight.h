/* The last events of a node, kept in a ring and written out when its part in the job ends badly.
 *
 * Noting one costs a few stores and no allocation; all of it is made by flight_new(). The host's
 * lock protects it. */
#ifndef TRIDENT_RUN_FLIGHT_H
#define TRIDENT_RUN_FLIGHT_H

#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FLIGHT_EVENTS = 4096, FLIGHT_TEXT = 96 };

struct flight;

#ifdef __cplusplus
}
#endif

#endif
