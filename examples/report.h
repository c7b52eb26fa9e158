/* Telling a person what went wrong, the same way in every example. */
#ifndef TRIDENT_EXAMPLES_REPORT_H
#define TRIDENT_EXAMPLES_REPORT_H

#include <trident/trident.h>

/* Prints all that the error says to stderr, behind the program's name, and returns the
 * exit code that goes with it: 2 when a setting must change, else 1. */
int report_error(const char *program, const tri_error *err);

#endif
