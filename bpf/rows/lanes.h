/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Adding the values of a row. */
#ifndef WIRESUM_ROWS_LANES_H
#define WIRESUM_ROWS_LANES_H

#include "maps.h"

/* float32 as 64-bit fixed point in units of 2^-45, which is proven exact where crates/sparse/src/sum does the
 * same: the significand, 33 bits to the left, then to the right by 138 less the exponent. */
#define FRACTION_BITS 23
#define WIDEN 33
#define LARGEST_EXPONENT 138
#define MAX_SHIFT 63

/* The lane of a float32. `excess` becomes negative if it is out of range, and the lane is then any, but
 * always the same. A number with the least exponents is 0 whatever its significand, so none is given a
 * special one. */
static __always_inline __s64 fixed_point(__u32 bits, __s32 *excess) {
    __s32 shift = LARGEST_EXPONENT - (bits >> FRACTION_BITS & 0xff);
    *excess |= shift;
    /* All ones if the shift is too large, without a branch: zeros and numbers come in no order. */
    shift |= (MAX_SHIFT - shift) >> 31;
    __u64 significand = (bits & ((1 << FRACTION_BITS) - 1)) | 1 << FRACTION_BITS;
    __s64 units = significand << WIDEN >> (shift & MAX_SHIFT);
    __s64 sign = (__s64)(__s32)bits >> 63;
    return (units ^ sign) - sign;
}

enum how { PUT, RAISE, LOWER };

static __always_inline __s64 changed(__s64 held, __s64 lane, enum how how) {
    return how == PUT ? lane : how == RAISE ? held + lane : held - lane;
}

/* Values are little-endian, and lanes in memory this machine's. */
static __always_inline __u32 load_value(const void *at) {
    __u32 value = *(const __u32 *)at;
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? value : __builtin_bswap32(value);
}

/* Brings the value at `value` into a row's lane number `index`. */
static __always_inline void change_lane(void *lanes, __u32 index, const void *value, __u16 format,
                                        enum how how, __s32 *excess) {
    __u32 bits = load_value(value);
    if (format & WIRESUM_FLAG_FLOAT) {
        __s64 *lane = lanes + 8 * index;
        *lane = changed(*lane, fixed_point(bits, excess), how);
    } else {
        __u32 *lane = lanes + 4 * index;
        *lane = changed(*lane, bits, how);
    }
}

/* Offsets of a row's values, and of its end: a mask that the verifier takes for a bound. */
#define VALUE_OFFSETS 0x7fc

_Static_assert(VALUE_OFFSETS > 4 * WIRESUM_MAX_ROW_VALUES, "every value has an offset, and the end too");

/* The lane of the value at this offset. The offset was compared by now, and is hidden from the compiler,
 * which would compute both offsets first. */
static __always_inline void *lane_of(void *lanes, __u32 at, __u16 format) {
    asm volatile("" : "+r"(at));
    return lanes + (format & WIRESUM_FLAG_FLOAT ? 2 * at : at);
}

/* Brings a row's `dim` values into its lanes; returns less than 0 if one was out of range. Values that are
 * cut off by the end of the packet are left out: the packet's length was compared before. For `zero`, see
 * hidden_zero. */
static __always_inline __s32 change_row(void *lanes, const void *row, const void *end, __u32 dim, __u32 zero,
                                        __u16 format, enum how how) {
    const __u32 room = 4 * (format & WIRESUM_FLAG_FLOAT ? rows_config.float_room : rows_config.int_room);
    const __u32 len = 4 * dim, stride_len = 4 * STRIDE;
    __s32 excess = 0;
    __u32 at = zero & VALUE_OFFSETS;
    for (__u32 stride = 0; stride < WIRESUM_MAX_ROW_VALUES / STRIDE; stride++) {
        const void *values = pinned((void *)row + at);
        if (room < stride_len || at > room - stride_len || at + stride_len > len || values + stride_len > end)
            break;
        void *first = lane_of(lanes, at, format);
#pragma unroll
        for (__u32 index = 0; index < STRIDE; index++)
            change_lane(first, index, values + 4 * index, format, how, &excess);
        at = (at + stride_len) & VALUE_OFFSETS;
    }
    for (__u32 rest = 1; rest < STRIDE; rest++) {
        const void *value = pinned((void *)row + at);
        if (at >= len || at >= room || value + 4 > end)
            break;
        change_lane(lane_of(lanes, at, format), 0, value, format, how, &excess);
        at = (at + 4) & VALUE_OFFSETS;
    }
    return excess;
}

#endif
