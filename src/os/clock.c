/* Reading the clock. */
#include "os/clock.h"

static struct timespec now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return at;
}

uint64_t clock_us(void)
{
    struct timespec at = now();
    return (uint64_t)at.tv_sec * 1000000 + (uint64_t)at.tv_nsec / 1000 + 1;
}

double clock_seconds(void)
{
    struct timespec at = now();
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

void clock_sleep_us(uint64_t us)
{
    struct timespec left = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000) * 1000};
    (void)nanosleep(&left, NULL);
}

struct timespec clock_after_ms(uint32_t ms)
{
    struct timespec at = now();
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}
