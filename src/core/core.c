/* Emitting actions. */
#include "core/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "wire/hash.h"

uint64_t core_rules_hash(const struct core_rules *rules, const char *optimizer)
{
    const uint8_t switches[] = {rules->aggregate, rules->replicated, rules->reproducible};
    const char *consistency = rules->consistency != NULL ? rules->consistency->name : "bsp";
    const uint64_t numbers[] = {rules->bound, rules->backup, rules->deadline, rules->left_outs};
    uint64_t hash = wire_hash64(WIRE_HASH_START, switches, sizeof switches);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uint8_t bytes[8];
        for (size_t j = 0; j < 8; j++)
            bytes[j] = (uint8_t)(numbers[i] >> 8 * j);
        hash = wire_hash64(hash, bytes, sizeof bytes);
    }
    hash = wire_hash64(hash, consistency, strlen(consistency) + 1);
    return wire_hash64(hash, optimizer, strlen(optimizer) + 1);
}

void core_send(const struct core_out *out, uint32_t to, const struct message *message,
               struct core_ref ref)
{
    struct core_action action = {.kind = CORE_SEND, .to = to, .message = *message, .ref = ref};
    core_emit(out, &action);
}

void core_op(const struct core_out *out, const struct core_op *op)
{
    struct core_action action = {.kind = CORE_OP, .op = *op};
    core_emit(out, &action);
}

void core_wake(const struct core_out *out, uint32_t layer)
{
    struct core_action action = {.kind = CORE_WAKE, .layer = layer};
    core_emit(out, &action);
}

void core_wait(const struct core_out *out, uint32_t layer, const char *text)
{
    struct core_action action = {.kind = CORE_WAIT, .layer = layer};
    (void)snprintf(action.text, sizeof action.text, "%s", text);
    core_emit(out, &action);
}

void core_fail(const struct core_out *out, tri_status status, const char *format, ...)
{
    struct core_action action = {.kind = CORE_FAIL, .status = status};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(action.text, sizeof action.text, format, args);
    va_end(args);
    core_emit(out, &action);
}
