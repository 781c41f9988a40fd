/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A packet and its slot: the policy says what becomes of both, and here it is done, unless the packet is
 * damaged. */
#ifndef WIRESUM_SWITCH_DEPOSIT_H
#define WIRESUM_SWITCH_DEPOSIT_H

#include "../lock.h"
#include "registers.h"
#include "values.h"

static __always_inline void load_registers(struct registers *registers, const struct slot *slot) {
    registers->key = slot->key;
    registers->contributors = slot->contributors;
    registers->shadow_key = slot->shadow_key;
    registers->scale = slot->scale;
    registers->count = slot->count;
    registers->job_key = slot->job_key;
    registers->congestion = slot->congestion;
    registers->is_final = slot->is_final;
}

static __always_inline void store_registers(struct slot *slot, const struct registers *registers) {
    slot->key = registers->key;
    slot->contributors = registers->contributors;
    slot->shadow_key = registers->shadow_key;
    slot->scale = registers->scale;
    slot->count = registers->count;
    slot->job_key = registers->job_key;
    slot->congestion = registers->congestion;
    slot->is_final = registers->is_final;
}

/* What is to be done with the values of a packet and of its slot. */
struct order {
    __u32 index; /* of the slot, or NO_SLOT */
    __u32 change;
    __u32 leaving;
    __u32 keeps;
    __u32 promised;
    __u32 arrived_len;
    __u32 flags; /* with which the packet has come */
    __u32 leaving_flags;
    __u32 frame_len;
    __u32 grown_len; /* of the packet's values while it is here; the rest is cut off in the end */
    /* What the packet leaves with. */
    __u32 payload_len;
    __u32 lane_sum;
};

/* The bank of the sum, or of the shadow; policies without a shadow have one bank. */
static __always_inline void *bank_of(void *banks, const struct slot *slot __attribute__((unused)),
                                     int is_shadow __attribute__((unused))) {
#ifdef HAS_SHADOW
    return banks + ((slot->bank ^ is_shadow) & 1) * config.max_payload;
#else
    return banks;
#endif
}

static __always_inline int takes_along(const struct order *order) {
    return order->change == EXCHANGE || order->leaving == WITH_THE_SUM || order->leaving == WITH_THE_SHADOW;
}

/* Makes the packet as long as what it is to leave with, by zeros. Where the larger lanes are kept, those that
 * a packet lacks count too. */
static __always_inline int grow(struct xdp_md *ctx, struct order *order, const struct slot *slot,
                                int maximizes) {
    __u32 held_len = order->leaving == WITH_THE_SHADOW ? slot->shadow_len : slot->payload_len;
    if (!(takes_along(order) || maximizes) || held_len <= order->arrived_len)
        return 0;
    order->grown_len = held_len;
    return bpf_xdp_adjust_tail(ctx, held_len - order->arrived_len);
}

/* Finds the packet's values. */
static __always_inline int find_lanes(struct xdp_md *ctx, const struct order *order, struct lanes *lanes) {
    void *data = (void *)(long)ctx->data;
    struct wiresum_header *header = data + (order->frame_len & MAX_FRAME_LEN);
    lanes->end = (void *)(long)ctx->data_end;
    lanes->payload = switch_header(header) + 1;
    if (lanes->payload > lanes->end)
        return -1;
    lanes->zero = hidden_zero(header);
    return 0;
}

/* Whether the check matches 32-bit values. Those that are summed up are added meanwhile, and taken back if it
 * does not. */
static __always_inline int is_sound(const struct order *order, const struct lanes *lanes) {
    if (order->change != SUM_UP)
        return sum_values(lanes, order->flags) == order->promised;
    if (add_values(lanes, order->flags, ADD) == order->promised)
        return 1;
    add_values(lanes, order->flags, SUBTRACT);
    return 0;
}

/* A first contribution, or a result. */
static __always_inline void take_over(const struct order *order, const struct lanes *lanes, __u16 byte_order,
                                      struct slot *slot) {
    take_values(lanes, byte_order);
    if (slot->payload_len > order->arrived_len)
        clear_values(lanes->total, order->arrived_len, slot->payload_len, lanes->zero);
    slot->lane_sum = order->promised;
    slot->payload_len = order->arrived_len;
}

/* The values are merged; their sum of lanes is given. */
static __always_inline void note_merge(const struct order *order, struct slot *slot, __u32 lane_sum) {
    slot->lane_sum = lane_sum;
    if (slot->payload_len < order->arrived_len)
        slot->payload_len = order->arrived_len;
}

static __always_inline void exchange(struct order *order, const struct lanes *lanes, __u16 byte_order,
                                     struct slot *slot) {
    exchange_values(lanes, byte_order);
    order->lane_sum = slot->lane_sum;
    order->payload_len = slot->payload_len;
    slot->lane_sum = order->promised;
    slot->payload_len = order->arrived_len;
}

static __always_inline void change_slot(struct order *order, const struct lanes *lanes, __u16 byte_order,
                                        struct slot *slot) {
    if (order->change == TAKE)
        take_over(order, lanes, byte_order, slot);
#ifdef EVICTS
    if (order->change == EXCHANGE)
        exchange(order, lanes, byte_order, slot);
#endif
}

/* Gives the packet what it leaves with. */
static __always_inline void change_packet(struct order *order, const struct lanes *lanes, __u16 byte_order,
                                          const struct slot *slot) {
    int is_shadow = order->leaving == WITH_THE_SHADOW;
    if (!is_shadow && order->leaving != WITH_THE_SUM)
        return;
    give_values(lanes, byte_order);
    order->lane_sum = is_shadow ? slot->shadow_lane_sum : slot->lane_sum;
    order->payload_len = is_shadow ? slot->shadow_len : slot->payload_len;
}

/* The banks change roles, so nothing has to be copied. */
static __always_inline void keep_sum(struct slot *slot) {
    __u32 lane_sum = slot->shadow_lane_sum;
    __u16 payload_len = slot->shadow_len;
    slot->bank ^= 1;
    slot->shadow_lane_sum = slot->lane_sum;
    slot->shadow_len = slot->payload_len;
    slot->lane_sum = lane_sum;
    slot->payload_len = payload_len;
}

/* Sums of 32 bits. */
static __always_inline __u32 carry_out_sum(struct xdp_md *ctx, struct order *order, struct slot *slot,
                                           struct lanes *lanes) {
    if (grow(ctx, order, slot, 0) || find_lanes(ctx, order, lanes))
        return LOST;
    if (!is_sound(order, lanes))
        return DAMAGED;
    if (order->change == SUM_UP)
        note_merge(order, slot, slot->lane_sum + order->promised);
    change_slot(order, lanes, order->flags, slot);
    change_packet(order, lanes, order->flags, slot);
    return 0;
}

/* What follows is for lanes of any format. It is rare, so each loop is in a global function, which the
 * verifier checks once. */

/* The sum of a packet's lanes, as the check counts it. */
__attribute__((noinline)) __u32 sum_any(struct xdp_md *ctx, struct order *order) {
    struct lanes lanes = {};
    return order && !find_lanes(ctx, order, &lanes) ? sum_any_values(&lanes, order->flags) : 0;
}

/* Gives a packet's lanes this machine's byte order, or the packet's own again. */
__attribute__((noinline)) int turn_any(struct xdp_md *ctx, struct order *order, __u32 flags) {
    struct lanes lanes = {};
    if (order && !find_lanes(ctx, order, &lanes))
        turn_values(&lanes, flags);
    return 0;
}

/* Merges a packet's lanes, in this machine's byte order, with the slot's. Returns the sum of the lanes that
 * have come, or of maxima of those that are kept. */
__attribute__((noinline)) __u32 merge_any(struct xdp_md *ctx, struct order *order) {
    struct lanes lanes = {};
    __u32 index = order ? order->index : 0;
    struct slot *slot = bpf_map_lookup_elem(&slots, &index);
    void *banks = bpf_map_lookup_elem(&values, &index);
    if (!order || !slot || !banks || find_lanes(ctx, order, &lanes))
        return 0;
    lanes.total = bank_of(banks, slot, 0);
    return merge_values(&lanes, order->flags);
}

static __always_inline void merge(struct xdp_md *ctx, struct order *order, struct slot *slot) {
    __u32 lane_sum = merge_any(ctx, order);
    if (!(order->flags & WIRESUM_FLAG_MAXIMUM))
        lane_sum += slot->lane_sum;
    note_merge(order, slot, order->flags & NARROW_LANES ? lane_sum & LANE16 : lane_sum);
}

/* Maxima, and sums of 16 bits; and what changes places with either. A maximum cannot be taken back, so the
 * check comes first. What has come and what leaves may have lanes of different widths, so the packet has this
 * machine's byte order meanwhile. */
static __always_inline __u32 carry_out_otherwise(struct xdp_md *ctx, struct order *order, struct slot *slot,
                                                 struct lanes *lanes) {
    int merges = order->change == SUM_UP, maximizes = merges && order->flags & WIRESUM_FLAG_MAXIMUM;
    if (grow(ctx, order, slot, maximizes))
        return LOST;
    if (sum_any(ctx, order) != order->promised)
        return DAMAGED;
    turn_any(ctx, order, order->flags);
    if (merges)
        merge(ctx, order, slot);
    if (find_lanes(ctx, order, lanes))
        return LOST;
    change_slot(order, lanes, MACHINE_ORDER, slot);
    change_packet(order, lanes, MACHINE_ORDER, slot);
    turn_any(ctx, order, order->leaving_flags);
    return 0;
}

static __always_inline int is_of_sums(const struct order *order) {
    return !((order->flags | order->leaving_flags) & MERGED_LANES);
}

/* Does with the values what the policy has decided; or says, with nothing done, which of DAMAGED and LOST the
 * packet is. */
static __always_inline __u32 carry_out_at(struct xdp_md *ctx, struct order *order, int are_sums) {
    struct lanes lanes = {};
    order->grown_len = order->arrived_len;
    order->lane_sum = order->leaving == WITH_NONE ? 0 : order->promised;
    order->payload_len = order->leaving == WITH_NONE ? 0 : order->arrived_len;
    if (order->index == NO_SLOT) {
        if (find_lanes(ctx, order, &lanes))
            return LOST;
        __u32 sum = are_sums ? sum_values(&lanes, order->flags) : sum_any(ctx, order);
        return sum == order->promised ? 0 : DAMAGED;
    }
    __u32 index = order->index;
    struct slot *slot = bpf_map_lookup_elem(&slots, &index);
    void *banks = bpf_map_lookup_elem(&values, &index);
    if (!slot || !banks)
        return LOST;
    lanes.total = bank_of(banks, slot, order->leaving == WITH_THE_SHADOW);
    __u32 failure =
        are_sums ? carry_out_sum(ctx, order, slot, &lanes) : carry_out_otherwise(ctx, order, slot, &lanes);
#ifdef HAS_SHADOW
    if (!failure && order->keeps)
        keep_sum(slot);
#endif
    return failure;
}

/* The verifier checks a global function once, for any order, and not again for each of the ways that lead to
 * it. What is no sum of 32 bits has one of its own. */
__attribute__((noinline)) __u32 carry_out_rarity(struct xdp_md *ctx, struct order *order) {
    return order ? carry_out_at(ctx, order, 0) : LOST;
}

__attribute__((noinline)) __u32 carry_out(struct xdp_md *ctx, struct order *order) {
    if (!order)
        return LOST;
    return is_of_sums(order) ? carry_out_at(ctx, order, 1) : carry_out_rarity(ctx, order);
}

#endif
