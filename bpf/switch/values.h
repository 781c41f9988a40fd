/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Values between packets and slots. Packets of either byte order may meet in a slot, so slots have this
 * machine's. */
#ifndef WIRESUM_SWITCH_VALUES_H
#define WIRESUM_SWITCH_VALUES_H

#include "../lanes.h"
#include "maps.h"

/* As values lie in slots: like those of little-endian packets. */
#define MACHINE_ORDER LITTLE_ENDIAN_LANES
#define LOW_BYTES 0x00ff00ff00ff00ffULL

static __always_inline void take_block(void *total, const void *block, __u16 format) {
    if (format) {
        copy_block(total, block);
        return;
    }
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 4)
        *(__u32 *)(total + at) = load_lane32(block + at, format);
}

static __always_inline void give_block(void *block, const void *total, __u16 format) {
    if (format) {
        copy_block(block, total);
        return;
    }
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 4)
        store_lane32(block + at, *(const __u32 *)(total + at), format);
}

static __always_inline void exchange_block(void *total, void *block, __u16 format) {
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 4) {
        __u32 lane = load_lane32(block + at, format);
        store_lane32(block + at, *(__u32 *)(total + at), format);
        *(__u32 *)(total + at) = lane;
    }
}

/* Swaps the bytes of each lane. */
static __always_inline void turn_block(void *block, int are_narrow) {
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8) {
        __u64 *word = block + at;
        *word = are_narrow ? (*word & LOW_BYTES) << 8 | (*word >> 8 & LOW_BYTES)
                           : (__u64)__builtin_bswap32(*word >> 32) << 32 | __builtin_bswap32(*word);
    }
}

/* Where values are. */
struct lanes {
    void *total;   /* the slot's */
    void *payload; /* the packet's */
    void *end;     /* of the packet */
    __u32 zero;    /* see hidden_zero */
};

static __always_inline __u32 sum_lanes_as(const struct lanes *lanes, __u16 format) {
    struct sums sums = {};
    for_each_block(piece, at, lanes->payload, lanes->end, lanes->zero, WIRESUM_PAGE_PAYLOAD, 4,
                   sum_block(&sums, piece, format));
    return fold_sums(&sums, format);
}

static __always_inline __u32 combine_lanes_as(const struct lanes *lanes, __u16 format, enum combine how) {
    return combine_payload_as(lanes->total, lanes->payload, lanes->end, lanes->zero, MACHINE_ORDER, format,
                              how);
}

static __always_inline void take_lanes_as(const struct lanes *lanes, __u16 format) {
    for_each_block(piece, at, lanes->payload, lanes->end, lanes->zero, config.max_payload, 4,
                   take_block(lanes->total + at, piece, format));
}

static __always_inline void give_lanes_as(const struct lanes *lanes, __u16 format) {
    for_each_block(piece, at, lanes->payload, lanes->end, lanes->zero, config.max_payload, 4,
                   give_block(piece, lanes->total + at, format));
}

static __always_inline void exchange_lanes_as(const struct lanes *lanes, __u16 format) {
    for_each_block(piece, at, lanes->payload, lanes->end, lanes->zero, config.max_payload, 1,
                   exchange_block(lanes->total + at, piece, format));
}

/* Gives each byte order a loop of its own. */
#define IN_ORDER(flags, CALL)                                                                                \
    do {                                                                                                     \
        if ((flags) & LITTLE_ENDIAN_LANES)                                                                   \
            CALL(LITTLE_ENDIAN_LANES);                                                                       \
        else                                                                                                 \
            CALL(0);                                                                                         \
    } while (0)

/* The sum of a packet's values, be they more than a slot has room for. */
static __always_inline __u32 sum_values(const struct lanes *lanes, __u16 flags) {
    __u32 sum;
#define SUM_IN(format) sum = sum_lanes_as(lanes, format)
    IN_ORDER(flags, SUM_IN);
    return sum;
}

/* The same of lanes of either width. */
static __always_inline __u32 sum_any_values(const struct lanes *lanes, __u16 flags) {
#define SUM_ANY(format) sum_lanes_as(lanes, format)
    BY_FORMAT(flags, SUM_ANY)
}

/* Adds a packet's values to the slot's, or takes them back; returns the sum of the packet's. */
static __always_inline __u32 add_values(const struct lanes *lanes, __u16 flags, enum combine how) {
    __u32 sum;
#define ADD_IN(format) sum = combine_lanes_as(lanes, format, how)
    IN_ORDER(flags, ADD_IN);
    return sum;
}

/* Merges a packet's values, in this machine's byte order, with the slot's, as the flags say; returns what the
 * check counts. */
static __always_inline __u32 merge_values(const struct lanes *lanes, __u16 flags) {
    switch (flags & MERGED_LANES) {
    case WIRESUM_FLAG_MAXIMUM:
        return combine_lanes_as(lanes, MACHINE_ORDER, MAXIMIZE);
    case WIRESUM_FLAG_MAXIMUM | NARROW_LANES:
        return combine_lanes_as(lanes, MACHINE_ORDER | NARROW_LANES, MAXIMIZE);
    case NARROW_LANES:
        return combine_lanes_as(lanes, MACHINE_ORDER | NARROW_LANES, ADD);
    default:
        return combine_lanes_as(lanes, MACHINE_ORDER, ADD);
    }
}

static __always_inline void take_values(const struct lanes *lanes, __u16 flags) {
#define TAKE_IN(format) take_lanes_as(lanes, format)
    IN_ORDER(flags, TAKE_IN);
}

static __always_inline void give_values(const struct lanes *lanes, __u16 flags) {
#define GIVE_IN(format) give_lanes_as(lanes, format)
    IN_ORDER(flags, GIVE_IN);
}

static __always_inline void exchange_values(const struct lanes *lanes, __u16 flags) {
#define EXCHANGE_IN(format) exchange_lanes_as(lanes, format)
    IN_ORDER(flags, EXCHANGE_IN);
}

static __always_inline void turn_lanes_as(const struct lanes *lanes, int are_narrow) {
    for_each_block(piece, at, lanes->payload, lanes->end, lanes->zero, config.max_payload, 1,
                   turn_block(piece, are_narrow));
}

/* Gives a packet's values this machine's byte order, or the packet's own again. */
static __always_inline void turn_values(const struct lanes *lanes, __u16 flags) {
    if (flags & LITTLE_ENDIAN_LANES)
        return;
    if (flags & NARROW_LANES)
        turn_lanes_as(lanes, 1);
    else
        turn_lanes_as(lanes, 0);
}

/* Sets the slot's values from a length on to zero, as far as they were something else. */
static __always_inline void clear_values(void *total, __u32 from, __u32 until, __u32 zero) {
    __u32 next = (from + zero) & OFFSETS;
    for (__u32 block = 0; block < MAX_BLOCKS; block++) {
        if (next >= until || next > config.max_payload - WIRESUM_BLOCK_LEN)
            break;
#pragma unroll
        for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8)
            *(__u64 *)(total + next + at) = 0;
        next = (next + WIRESUM_BLOCK_LEN) & OFFSETS;
    }
}

#endif
