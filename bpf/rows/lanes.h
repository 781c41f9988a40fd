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

/* The same lane of a float16: its significand of 11 bits stands for units of 2^-24 where the exponent is 1,
 * so none is lost. The exponent 0 is as 1, without the significand's first bit; that is told by arithmetic,
 * as the verifier goes both ways of a branch at each value, and that of Linux 6.18 after a mask of -1 or 0
 * too. */
#define HALF_FRACTION_BITS 10
#define HALF_EXPONENT_BITS 5
#define HALF_EXPONENTS ((1 << HALF_EXPONENT_BITS) - 1)
#define HALF_WIDEN 21
#define HALF_LARGEST_EXPONENT 26

static __always_inline __s64 fixed_point_of_half(__u16 bits, __s32 *excess) {
    __u32 exponent = bits >> HALF_FRACTION_BITS & HALF_EXPONENTS;
    *excess |= (__s32)(HALF_LARGEST_EXPONENT - exponent);
    __u32 first = (exponent + HALF_EXPONENTS) >> HALF_EXPONENT_BITS; /* 1 unless the exponent is 0 */
    __u64 significand = (bits & ((1 << HALF_FRACTION_BITS) - 1)) | first << HALF_FRACTION_BITS;
    __s64 units = significand << ((HALF_WIDEN + exponent - first) & MAX_SHIFT);
    __s64 sign = (__s64)(__s16)bits >> 63;
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

static __always_inline __u16 load_half(const void *at) {
    __u16 value = *(const __u16 *)at;
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? value : __builtin_bswap16(value);
}

/* What values are, by a packet's flags: those of 16 bits are float32 with half of its bits, or float16. Lanes
 * of all three have 64 bits. int32 has no flag. */
#define FLOATS WIRESUM_FLAG_FLOAT
#define HALVES (WIRESUM_FLAG_FLOAT | WIRESUM_FLAG_LANES16)
#define BFLOATS (WIRESUM_FLAG_FLOAT | WIRESUM_FLAG_LANES16 | WIRESUM_FLAG_BFLOAT)

/* The format that a packet's flags tell. */
static __always_inline __u16 format_of(__u16 flags) {
    return (flags & HALVES) == HALVES ? flags & BFLOATS : flags & FLOATS;
}

/* Bytes of a value in the packet. */
static __always_inline __u32 width_of(__u16 format) { return format & WIRESUM_FLAG_LANES16 ? 2 : 4; }

static __always_inline __s64 lane_of_value(const void *value, __u16 format, __s32 *excess) {
    switch (format) {
    case FLOATS:
        return fixed_point(load_value(value), excess);
    case BFLOATS:
        return fixed_point((__u32)load_half(value) << 16, excess);
    default:
        return fixed_point_of_half(load_half(value), excess);
    }
}

/* Brings the value at `value` into a row's lane number `index`. */
static __always_inline void change_lane(void *lanes, __u32 index, const void *value, __u16 format,
                                        enum how how, __s32 *excess) {
    if (format & WIRESUM_FLAG_FLOAT) {
        __s64 *lane = lanes + 8 * index;
        *lane = changed(*lane, lane_of_value(value, format, excess), how);
    } else {
        __u32 *lane = lanes + 4 * index;
        *lane = changed(*lane, load_value(value), how);
    }
}

/* Offsets of a row's values, and of its end, where one has so many bytes: a mask that the verifier takes for
 * a bound. */
#define VALUE_OFFSETS(width) ((width) * (2 * WIRESUM_MAX_ROW_VALUES - 1))

_Static_assert((WIRESUM_MAX_ROW_VALUES & (WIRESUM_MAX_ROW_VALUES - 1)) == 0, "the offsets are a mask");

/* The lane of the value at this offset. The offset was compared by now, and is hidden from the compiler,
 * which would compute both offsets first. */
static __always_inline void *lane_of(void *lanes, __u32 at, __u16 format) {
    asm volatile("" : "+r"(at));
    return lanes + (format & WIRESUM_FLAG_FLOAT ? 8 / width_of(format) * at : at);
}

/* Brings a row's `dim` values into its lanes; returns less than 0 if one was out of range. Values that are
 * cut off by the end of the packet are left out: the packet's length was compared before. For `zero`, see
 * hidden_zero. */
static __always_inline __s32 change_row(void *lanes, const void *row, const void *end, __u32 dim, __u32 zero,
                                        __u16 format, enum how how) {
    const __u32 width = width_of(format);
    const __u32 room = width * (format & WIRESUM_FLAG_FLOAT ? rows_config.float_room : rows_config.int_room);
    const __u32 len = width * dim, stride_len = width * STRIDE;
    __s32 excess = 0;
    __u32 at = zero & VALUE_OFFSETS(width);
    for (__u32 stride = 0; stride < WIRESUM_MAX_ROW_VALUES / STRIDE; stride++) {
        const void *values = pinned((void *)row + at);
        if (room < stride_len || at > room - stride_len || at + stride_len > len || values + stride_len > end)
            break;
        void *first = lane_of(lanes, at, format);
#pragma unroll
        for (__u32 index = 0; index < STRIDE; index++)
            change_lane(first, index, values + width * index, format, how, &excess);
        at = (at + stride_len) & VALUE_OFFSETS(width);
    }
    for (__u32 rest = 1; rest < STRIDE; rest++) {
        const void *value = pinned((void *)row + at);
        if (at >= len || at >= room || value + width > end)
            break;
        change_lane(lane_of(lanes, at, format), 0, value, format, how, &excess);
        at = (at + width) & VALUE_OFFSETS(width);
    }
    return excess;
}

#endif
