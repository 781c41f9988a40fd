/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Adding, comparing and copying lanes, block by block. A block check of constant size costs the verifier
 * little and lets the body be unrolled; 16-bit lanes are added four at a time in 64-bit words. */
#ifndef WIRESUM_LANES_H
#define WIRESUM_LANES_H

#include "config.h"

#define LITTLE_ENDIAN_LANES WIRESUM_FLAG_LITTLE_ENDIAN
#define NARROW_LANES WIRESUM_FLAG_LANES16
/* The top bit of each 16-bit lane of a word, and the lower lane of each half word. */
#define TOP_BITS 0x8000800080008000ULL
#define EVEN_LANES 0x0000ffff0000ffffULL
#define LANE16 0xffffULL

enum combine { ADD, SUBTRACT, MAXIMIZE };

static __always_inline __u32 load_lane32(const void *at, __u16 format) {
    __u32 lane = *(const __u32 *)at;
    return format & LITTLE_ENDIAN_LANES ? lane : __builtin_bswap32(lane);
}

static __always_inline void store_lane32(void *at, __u32 lane, __u16 format) {
    *(__u32 *)at = format & LITTLE_ENDIAN_LANES ? lane : __builtin_bswap32(lane);
}

/* Four 16-bit lanes. Big-endian ones come out in reverse order, which no lane-wise operation minds. */
static __always_inline __u64 load_lanes16(const void *at, __u16 format) {
    __u64 lanes = *(const __u64 *)at;
    return format & LITTLE_ENDIAN_LANES ? lanes : __builtin_bswap64(lanes);
}

static __always_inline void store_lanes16(void *at, __u64 lanes, __u16 format) {
    *(__u64 *)at = format & LITTLE_ENDIAN_LANES ? lanes : __builtin_bswap64(lanes);
}

/* The larger of two signed lanes, without a branch, even if the compiler knows better: the verifier would
 * follow both sides of each. */
static __always_inline __s64 larger(__s64 a, __s64 b) {
    __s64 difference = a - b, sign = difference >> 63;
    asm volatile("" : "+r"(sign));
    return a - (difference & sign);
}

/* The same of four lanes: where the signs differ, they decide, and else the difference of what is below. */
static __always_inline __u64 larger_lanes16(__u64 a, __u64 b) {
    __u64 low = (a | TOP_BITS) - (b & ~TOP_BITS);
    __u64 is_a = ((~a & b) | (~(a ^ b) & low)) & TOP_BITS;
    return b ^ ((a ^ b) & (is_a >> 15) * LANE16);
}

static __always_inline __u32 combined32(__u32 held, __u32 lane, enum combine how) {
    if (how == MAXIMIZE)
        return larger((__s32)lane, (__s32)held);
    return how == ADD ? held + lane : held - lane;
}

static __always_inline __u64 combined16(__u64 held, __u64 lanes, enum combine how) {
    if (how == MAXIMIZE)
        return larger_lanes16(lanes, held);
    return how == ADD ? ((held & ~TOP_BITS) + (lanes & ~TOP_BITS)) ^ ((held ^ lanes) & TOP_BITS)
                      : ((held | TOP_BITS) - (lanes & ~TOP_BITS)) ^ ((held ^ ~lanes) & TOP_BITS);
}

/* Two partial sums of 16-bit lanes: 32 bits each, more than the longest payload can fill. */
static __always_inline __u64 sum_lanes16(__u64 lanes) {
    return (lanes & EVEN_LANES) + ((lanes >> 16) & EVEN_LANES);
}

/* What the loops accumulate: two sums, so that an addition need not wait for the one before it. */
struct sums {
    __u64 even;
    __u64 odd;
};

/* Adds without letting the compiler reorder: it would gather lanes first, for which there are not enough
 * registers. */
static __always_inline void accumulate(__u64 *sum, __u64 lanes) {
    *sum += lanes;
    asm volatile("" : "+r"(*sum));
}

/* The sum of the lanes as the check counts it. */
static __always_inline __u32 fold_sums(const struct sums *sums, __u16 format) {
    __u64 sum = sums->even + sums->odd;
    return format & NARROW_LANES ? ((__u32)sum + (__u32)(sum >> 32)) & 0xffff : (__u32)sum;
}

static __always_inline void sum_block(struct sums *sums, const void *block, __u16 format) {
    if (format & NARROW_LANES) {
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8)
            accumulate(&sums->even, sum_lanes16(load_lanes16(block + at, format)));
    } else {
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8) {
            accumulate(&sums->even, load_lane32(block + at, format));
            accumulate(&sums->odd, load_lane32(block + at + 4, format));
        }
    }
}

/* Returns what the check counts: what has come, or of maxima what is kept. The lane that is held has the byte
 * order of `held`. */
static __always_inline __u32 combine_lane32(void *total, const void *block, __u16 held, __u16 format,
                                            enum combine how) {
    __u32 lane = load_lane32(block, format);
    __u32 kept = combined32(load_lane32(total, held), lane, how);
    store_lane32(total, kept, held);
    return how == MAXIMIZE ? kept : lane;
}

static __always_inline __u64 combine_word16(void *total, const void *block, __u16 format, enum combine how) {
    __u64 lanes = load_lanes16(block, format);
    __u64 kept = combined16(load_lanes16(total, format), lanes, how);
    store_lanes16(total, kept, format);
    return sum_lanes16(how == MAXIMIZE ? kept : lanes);
}

/* Adds a block to the entry's, takes it back or keeps the larger lanes, and sums what the check counts. Lanes
 * of 32 bits that are held may have another byte order; narrow ones have the packet's. */
static __always_inline void combine_block(struct sums *sums, void *total, const void *block, __u16 held,
                                          __u16 format, enum combine how) {
    if (format & NARROW_LANES) {
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8)
            accumulate(&sums->even, combine_word16(total + at, block + at, format, how));
    } else {
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8) {
            accumulate(&sums->even, combine_lane32(total + at, block + at, held, format, how));
            accumulate(&sums->odd, combine_lane32(total + at + 4, block + at + 4, held, format, how));
        }
    }
}

static __always_inline void copy_block(void *to, const void *from) {
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8)
        *(__u64 *)(to + at) = *(const __u64 *)(from + at);
}

static __always_inline __u32 sum_payload_as(void *payload, const void *end, __u32 zero, __u16 format) {
    struct sums sums = {};
    for_each_block(lanes, at, payload, end, zero, config.max_payload, 4, sum_block(&sums, lanes, format));
    return fold_sums(&sums, format);
}

static __always_inline __u32 combine_payload_as(void *total, void *payload, const void *end, __u32 zero,
                                                __u16 held, __u16 format, enum combine how) {
    struct sums sums = {};
    for_each_block(lanes, at, payload, end, zero, config.max_payload, how == ADD ? 4 : 1,
                   combine_block(&sums, total + at, lanes, held, format, how));
    return fold_sums(&sums, format);
}

/* Gives each format a loop of its own, so that no loop asks for the format. */
#define BY_FORMAT(format, CALL)                                                                              \
    switch ((format) & (LITTLE_ENDIAN_LANES | NARROW_LANES)) {                                               \
    case LITTLE_ENDIAN_LANES:                                                                                \
        return CALL(LITTLE_ENDIAN_LANES);                                                                    \
    case 0:                                                                                                  \
        return CALL(0);                                                                                      \
    case LITTLE_ENDIAN_LANES | NARROW_LANES:                                                                 \
        return CALL(LITTLE_ENDIAN_LANES | NARROW_LANES);                                                     \
    default:                                                                                                 \
        return CALL(NARROW_LANES);                                                                           \
    }

/* The sum of a packet's lanes. */
static __always_inline __u32 sum_payload(void *payload, const void *end, __u32 zero, __u16 format) {
#define SUM_AS(f) sum_payload_as(payload, end, zero, f)
    BY_FORMAT(format, SUM_AS)
}

/* Adds a packet's lanes to the entry's, or takes them back, and returns the sum of the packet's; or keeps the
 * larger of each pair, and returns the sum of those. */
static __always_inline __u32 combine_payload(void *total, void *payload, const void *end, __u32 zero,
                                             __u16 format, enum combine how) {
#define COMBINE_AS(f) combine_payload_as(total, payload, end, zero, f, f, how)
    BY_FORMAT(format, COMBINE_AS)
}

/* Copies a packet's lanes into the entry. */
static __always_inline void take_payload(void *total, void *payload, const void *end, __u32 zero) {
    for_each_block(lanes, at, payload, end, zero, config.max_payload, 4, copy_block(total + at, lanes));
}

/* Copies the entry's lanes into a packet. */
static __always_inline void give_payload(void *payload, const void *end, const void *total, __u32 zero) {
    for_each_block(lanes, at, payload, end, zero, config.max_payload, 4, copy_block(lanes, total + at));
}

#endif
