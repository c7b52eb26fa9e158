/* CRC-32C by processor instruction, or by tables of eight bytes a step.
 *
 * Inside this file a checksum in the making is a `state`: the inverse of the
 * crc a caller sees. Shifting zero bytes into a state is linear over XOR. That
 * is what both the tables and the three lanes below rest on. */
#include "base/crc32c.h"

#include <stdbool.h>
#include <string.h>

/* Tables of 256 entries, each from its eight entries at powers of two: being
 * linear, entry[b] is the XOR of entry[1 << i] over the bits i set in b. ROW8
 * spells that out at compile time, in order; the tests recompute every entry. */
#define ROW0(x)                      (x)
#define ROW1(x, a)                   ROW0(x), ROW0((x) ^ (a))
#define ROW2(x, a, b)                ROW1(x, a), ROW1((x) ^ (b), a)
#define ROW3(x, a, b, c)             ROW2(x, a, b), ROW2((x) ^ (c), a, b)
#define ROW4(x, a, b, c, d)          ROW3(x, a, b, c), ROW3((x) ^ (d), a, b, c)
#define ROW5(x, a, b, c, d, e)       ROW4(x, a, b, c, d), ROW4((x) ^ (e), a, b, c, d)
#define ROW6(x, a, b, c, d, e, f)    ROW5(x, a, b, c, d, e), ROW5((x) ^ (f), a, b, c, d, e)
#define ROW7(x, a, b, c, d, e, f, g) ROW6(x, a, b, c, d, e, f), ROW6((x) ^ (g), a, b, c, d, e, f)
#define ROW8(a, b, c, d, e, f, g, h)                                                               \
    {                                                                                              \
        ROW7(0u, a, b, c, d, e, f, g), ROW7(h, a, b, c, d, e, f, g)                                \
    }

/* after[k][b]: the state that byte b leaves once k zero bytes followed it. The
 * polynomial is 0x82F63B78, reflected: lowest bit first. */
static const uint32_t after[8][256] = {
    ROW8(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc,
         0x82f63b78),
    ROW8(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604,
         0xfbc3faf9),
    ROW8(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9,
         0x8b277743),
    ROW8(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7,
         0x52a0c93f),
    ROW8(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae,
         0x6ea2d55c),
    ROW8(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb,
         0x1c08b7d6),
    ROW8(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a,
         0xf56e0ef4),
    ROW8(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32,
         0x34019664),
};

/* Eight bytes, lowest first whatever the machine. A loop of shifts would say the
 * same without the #if, but gcc does not turn it into one load at -O2. */
static inline uint64_t load(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

uint32_t crc32c_table(uint32_t crc, const void *data, size_t len_bytes)
{
    const uint8_t *at = data;
    uint32_t state = ~crc;
    for (; len_bytes >= 8; at += 8, len_bytes -= 8) {
        uint64_t x = load(at) ^ state;
        state = after[7][x & 255] ^ after[6][x >> 8 & 255] ^ after[5][x >> 16 & 255] ^
                after[4][x >> 24 & 255] ^ after[3][x >> 32 & 255] ^ after[2][x >> 40 & 255] ^
                after[1][x >> 48 & 255] ^ after[0][x >> 56];
    }
    for (; len_bytes > 0; at++, len_bytes--)
        state = state >> 8 ^ after[0][(state ^ *at) & 255];
    return ~state;
}

#if defined(__x86_64__)

#include <nmmintrin.h>

/* Only these functions may use the instruction: the library itself is built
 * for any x86-64 and asks the processor at run time. */
#define HARDWARE __attribute__((target("sse4.2")))

static bool hardware_here(void)
{
    return __builtin_cpu_supports("sse4.2");
}

static const char hardware_name[] = "sse4.2";

HARDWARE static inline uint32_t step8(uint32_t state, uint64_t bytes)
{
    return (uint32_t)_mm_crc32_u64(state, bytes);
}

HARDWARE static inline uint32_t step1(uint32_t state, uint8_t byte)
{
    return _mm_crc32_u8(state, byte);
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

#include <arm_acle.h>

/* Asking at run time takes a system header here, which base does without; the
 * instruction is part of ARMv8.1, so builds for that or later have it. */
#define HARDWARE

static bool hardware_here(void)
{
    return true;
}

static const char hardware_name[] = "armv8";

static inline uint32_t step8(uint32_t state, uint64_t bytes)
{
    return __crc32cd(state, bytes);
}

static inline uint32_t step1(uint32_t state, uint8_t byte)
{
    return __crc32cb(state, byte);
}

#endif

#ifdef HARDWARE

/* The instruction takes three cycles but can start every cycle, so three lanes
 * side by side run at full speed. A lane of 256 bytes keeps the cost of joining
 * them near a tenth, and lets blocks of a few KiB profit. */
#define LANE ((size_t)256)

/* past_lane[i][b]: the state that byte i of a state, b, turns into after LANE
 * zero bytes. These are after[255], after[254], after[253] and after[252]. */
static const uint32_t past_lane[4][256] = {
    ROW8(0xdcb17aa4, 0xbc8e83b9, 0x7cf17183, 0xf9e2e306, 0xf629b0fd, 0xe9bf170b, 0xd69258e7,
         0xa8c8c73f),
    ROW8(0x547df88f, 0xa8fbf11e, 0x541b94cd, 0xa837299a, 0x558225c5, 0xab044b8a, 0x53e4e1e5,
         0xa7c9c3ca),
    ROW8(0x4a7ff165, 0x94ffe2ca, 0x2c13b365, 0x582766ca, 0xb04ecd94, 0x6571edd9, 0xcae3dbb2,
         0x902bc195),
    ROW8(0x25bbf5db, 0x4b77ebb6, 0x96efd76c, 0x2833d829, 0x5067b052, 0xa0cf60a4, 0x4472b7b9,
         0x88e56f72),
};

static inline uint32_t skip_lane(uint32_t state)
{
    return past_lane[0][state & 255] ^ past_lane[1][state >> 8 & 255] ^
           past_lane[2][state >> 16 & 255] ^ past_lane[3][state >> 24];
}

HARDWARE static uint32_t by_hardware(uint32_t crc, const uint8_t *at, size_t len_bytes)
{
    uint32_t state = ~crc;
    for (; len_bytes >= 3 * LANE; at += 3 * LANE, len_bytes -= 3 * LANE) {
        uint32_t second = 0, third = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            state = step8(state, load(at + i));
            second = step8(second, load(at + LANE + i));
            third = step8(third, load(at + 2 * LANE + i));
        }
        state = skip_lane(skip_lane(state) ^ second) ^ third;
    }
    for (; len_bytes >= 8; at += 8, len_bytes -= 8)
        state = step8(state, load(at));
    for (; len_bytes > 0; at++, len_bytes--)
        state = step1(state, *at);
    return ~state;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len_bytes)
{
    return hardware_here() ? by_hardware(crc, data, len_bytes) : crc32c_table(crc, data, len_bytes);
}

const char *crc32c_how(void)
{
    return hardware_here() ? hardware_name : "table";
}

#else

uint32_t crc32c(uint32_t crc, const void *data, size_t len_bytes)
{
    return crc32c_table(crc, data, len_bytes);
}

const char *crc32c_how(void)
{
    return "table";
}

#endif
