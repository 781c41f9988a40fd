/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Adding, comparing and copying lanes, block by block. A block check of constant size costs the verifier
 * little and lets the body be unrolled; 16-bit lanes are added four at a time in 64-bit words. */
#ifndef WIRESUM_LANES_H
#define WIRESUM_LANES_H

#include "packet.h"

#define LITTLE_ENDIAN_LANES WIRESUM_FLAG_LITTLE_ENDIAN
#define NARROW_LANES WIRESUM_FLAG_LANES16
/* The top bit of each 16-bit lane of a word, and the lower lane of each half word. */
#define TOP_BITS 0x8000800080008000ULL
#define EVEN_LANES 0x0000ffff0000ffffULL

enum combine { ADD, SUBTRACT };

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

static __always_inline __u64 combine_lanes16(__u64 a, __u64 b, enum combine how) {
    return how == ADD ? ((a & ~TOP_BITS) + (b & ~TOP_BITS)) ^ ((a ^ b) & TOP_BITS)
                      : ((a | TOP_BITS) - (b & ~TOP_BITS)) ^ ((a ^ ~b) & TOP_BITS);
}

/* Two partial sums of 16-bit lanes: 32 bits each, more than the longest payload can fill. */
static __always_inline __u64 sum_lanes16(__u64 lanes) {
    return (lanes & EVEN_LANES) + ((lanes >> 16) & EVEN_LANES);
}

/* The sum of the lanes as the check counts it, from what the loops accumulate. */
static __always_inline __u32 fold_sum(__u64 sum, __u16 format) {
    return format & NARROW_LANES ? ((__u32)sum + (__u32)(sum >> 32)) & 0xffff : (__u32)sum;
}

static __always_inline __u64 sum_block(const void *block, __u16 format) {
    __u64 sum = 0;
    if (format & NARROW_LANES) {
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8)
            sum += sum_lanes16(load_lanes16(block + at, format));
    } else {
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 4)
            sum += load_lane32(block + at, format);
    }
    return sum;
}

/* Adds a block to the entry's, or takes it back; returns the sum of what was added. */
static __always_inline __u64 combine_block(void *total, const void *block, __u16 format, enum combine how) {
    __u64 sum = 0;
    if (format & NARROW_LANES) {
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8) {
            __u64 lanes = load_lanes16(block + at, format);
            sum += sum_lanes16(lanes);
            store_lanes16(total + at, combine_lanes16(load_lanes16(total + at, format), lanes, how), format);
        }
    } else {
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 4) {
            __u32 lane = load_lane32(block + at, format);
            __u32 held = load_lane32(total + at, format);
            sum += lane;
            store_lane32(total + at, how == ADD ? held + lane : held - lane, format);
        }
    }
    return sum;
}

/* The larger of two signed lanes, without a branch, even if the compiler knows better: the verifier would
 * follow both sides of each. */
static __always_inline __s64 larger(__s64 a, __s64 b) {
    __s64 difference = a - b, sign = difference >> 63;
    asm volatile("" : "+r"(sign));
    return a - (difference & sign);
}

/* Keeps the larger lanes; returns the sum of what is kept. */
static __always_inline __u64 maximize_block(void *total, const void *block, __u16 format) {
    __u64 sum = 0;
    if (format & NARROW_LANES) {
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 2) {
            __u16 lane = *(const __u16 *)(block + at), held = *(__u16 *)(total + at);
            int swap = !(format & LITTLE_ENDIAN_LANES);
            __u16 most = larger((__s16)(swap ? __builtin_bswap16(lane) : lane),
                                (__s16)(swap ? __builtin_bswap16(held) : held));
            sum += most;
            *(__u16 *)(total + at) = swap ? __builtin_bswap16(most) : most;
        }
    } else {
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 4) {
            __s32 lane = load_lane32(block + at, format), held = load_lane32(total + at, format);
            __u32 most = larger(lane, held);
            sum += most;
            store_lane32(total + at, most, format);
        }
    }
    return sum;
}

static __always_inline void copy_block(void *to, const void *from) {
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8)
        *(__u64 *)(to + at) = *(const __u64 *)(from + at);
}

static __always_inline __u32 sum_payload_as(const void *payload, const void *end, __u32 zero, __u16 format) {
    __u64 sum = 0;
    for_each_block(at, payload, end, zero, config.max_blocks) sum += sum_block(payload + at, format);
    return fold_sum(sum, format);
}

static __always_inline __u32 combine_payload_as(void *total, const void *payload, const void *end, __u32 zero,
                                                __u16 format, enum combine how) {
    __u64 sum = 0;
    for_each_block(at, payload, end, zero, config.max_blocks) sum +=
        combine_block(total + at, payload + at, format, how);
    return fold_sum(sum, format);
}

static __always_inline __u32 maximize_payload_as(void *total, const void *payload, const void *end,
                                                 __u32 zero, __u16 format) {
    __u64 sum = 0;
    for_each_block(at, payload, end, zero, config.max_blocks) sum +=
        maximize_block(total + at, payload + at, format);
    return fold_sum(sum, format);
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
static __always_inline __u32 sum_payload(const void *payload, const void *end, __u32 zero, __u16 format) {
#define SUM_AS(f) sum_payload_as(payload, end, zero, f)
    BY_FORMAT(format, SUM_AS)
}

/* Adds a packet's lanes to the entry's, or takes them back; returns the sum of the packet's. */
static __always_inline __u32 combine_payload(void *total, const void *payload, const void *end, __u32 zero,
                                             __u16 format, enum combine how) {
#define COMBINE_AS(f) combine_payload_as(total, payload, end, zero, f, how)
    BY_FORMAT(format, COMBINE_AS)
}

/* Keeps the larger of each pair of lanes in the entry; returns the sum of what it then holds. */
static __always_inline __u32 maximize_payload(void *total, const void *payload, const void *end, __u32 zero,
                                              __u16 format) {
#define MAXIMIZE_AS(f) maximize_payload_as(total, payload, end, zero, f)
    BY_FORMAT(format, MAXIMIZE_AS)
}

/* Copies a packet's lanes into the entry. */
static __always_inline void take_payload(void *total, const void *payload, const void *end, __u32 zero) {
    for_each_block(at, payload, end, zero, config.max_blocks) copy_block(total + at, payload + at);
}

/* Copies the entry's lanes into a packet. */
static __always_inline void give_payload(void *payload, const void *end, const void *total, __u32 zero) {
    for_each_block(at, payload, end, zero, config.max_blocks) copy_block(payload + at, total + at);
}

#endif
