/* What every test file starts from: cmocka, and the faults of fault.h. */
#ifndef TRIDENT_TESTS_LIB_TEST_H
#define TRIDENT_TESTS_LIB_TEST_H

/* cmocka.h wants these four before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/fault.h"

/* A test is `static void name(void **state)`; the name is the claim. */
#define TEST(name) static void name(void **state)

#endif
