/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Values between packets and slots. Packets of either byte order may meet in a slot, so slots have this
 * machine's. */
#ifndef WIRESUM_SWITCH_VALUES_H
#define WIRESUM_SWITCH_VALUES_H

#include "../lanes.h"
#include "maps.h"

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

static __always_inline __u32 add_lane(void *total, const void *block, __u16 format, enum combine how) {
    __u32 lane = load_lane32(block, format);
    *(__u32 *)total = how == ADD ? *(__u32 *)total + lane : *(__u32 *)total - lane;
    return lane;
}

/* Adds a block to the slot's, or takes it back, and sums what was added. */
static __always_inline void add_block(struct sums *sums, void *total, const void *block, __u16 format,
                                      enum combine how) {
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 8) {
        accumulate(&sums->even, add_lane(total + at, block + at, format, how));
        accumulate(&sums->odd, add_lane(total + at + 4, block + at + 4, format, how));
    }
}

static __always_inline void exchange_block(void *total, void *block, __u16 format) {
#pragma unroll
    for (int at = 0; at < WIRESUM_BLOCK_LEN; at += 4) {
        __u32 lane = load_lane32(block + at, format);
        store_lane32(block + at, *(__u32 *)(total + at), format);
        *(__u32 *)(total + at) = lane;
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
    for_each_block(piece, at, lanes->payload, lanes->end, lanes->zero, WIRESUM_MAX_PAYLOAD, 4,
                   sum_block(&sums, piece, format));
    return fold_sums(&sums, format);
}

static __always_inline __u32 add_lanes_as(const struct lanes *lanes, __u16 format, enum combine how) {
    struct sums sums = {};
    for_each_block(piece, at, lanes->payload, lanes->end, lanes->zero, config.max_payload, how == ADD ? 4 : 1,
                   add_block(&sums, lanes->total + at, piece, format, how));
    return fold_sums(&sums, format);
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

/* Adds a packet's values to the slot's, or takes them back; returns the sum of the packet's. */
static __always_inline __u32 add_values(const struct lanes *lanes, __u16 flags, enum combine how) {
    __u32 sum;
#define ADD_IN(format) sum = add_lanes_as(lanes, format, how)
    IN_ORDER(flags, ADD_IN);
    return sum;
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
