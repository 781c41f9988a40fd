// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// A switch: sums, stores and forwards packets as its policy says. What it does with each is written in
// spec/switch.md, and must be what crates/switch does. One object for each policy, which the build names.
#include POLICY

#include "admission.h"
#include "deposit.h"
#include "forget.h"
#include "forward.h"

/* What was addressed to this switch leaves it for the place's parent. */
static __always_inline void address_up(struct arrival *arrival) {
    const struct place *place = arrival->place;
    if (arrival->node == switch_config.node && !place->is_root)
        arrival->node = place->parent;
}

/* Writes both headers of a packet that leaves. */
static __always_inline void rewrite(struct wiresum_header *header, const struct arrival *arrival,
                                    const struct order *order) {
    void *contributors = &switch_header(header)->contributors;
    header->kind = arrival->kind;
    header->contributor = arrival->worker;
    header->expected = arrival->expected;
    put16(&header->node, arrival->node);
    put16(&header->value_count, order->payload_len / (arrival->flags & WIRESUM_FLAG_LANES16 ? 2 : 4));
    put16(&header->flags, arrival->flags | WIRESUM_FLAG_SWITCHED);
    put32(contributors, arrival->contributors >> 32);
    put32(contributors + 4, arrival->contributors);
    put32(&header->check, sum_headers(header) + order->lane_sum);
}

/* Cuts off the values that the packet leaves without. */
static __always_inline int trim(struct xdp_md *ctx, const struct order *order) {
    int excess = order->grown_len - order->payload_len;
    return excess > 0 && bpf_xdp_adjust_tail(ctx, -excess);
}

/* Finishes a packet whose values are what they are to be. */
static __always_inline int finish(struct xdp_md *ctx, struct arrival *arrival, const struct order *order) {
    void *data = (void *)(long)ctx->data;
    struct wiresum_header *header = data + (order->frame_len & MAX_FRAME_LEN);
    if ((void *)(switch_header(header) + 1) > (void *)(long)ctx->data_end)
        return -1;
    rewrite(header, arrival, order);
    return trim(ctx, order);
}

static __always_inline struct order order_for(const struct arrival *arrival, const struct fate *fate,
                                              __u32 index) {
    struct order order = {.index = index, .change = fate->change, .leaving = fate->leaving};
    order.keeps = fate->keeps;
    order.promised = arrival->promised;
    order.arrived_len = arrival->packet.payload_len;
    order.flags = arrival->packet.flags;
    order.leaving_flags = arrival->flags;
    order.frame_len = arrival->packet.frame_len;
    return order;
}

/* A packet that changes no slot: it passes, lacks one, or goes past those of a stream that was forgotten. */
static __always_inline struct fate go_past(struct xdp_md *ctx, struct arrival *arrival,
                                           enum verdict verdict) {
    int is_result = arrival->kind == WIRESUM_KIND_RESULT;
    struct fate fate = as_it_is(PASSED, is_result ? DOWN : UP);
    struct order order = order_for(arrival, &fate, NO_SLOT);
    __u32 failure = carry_out(ctx, &order);
    if (failure)
        return absorb(failure);
    if (is_result || verdict == PASSED)
        return fate;
    if (verdict == COLLISION)
        collide(arrival);
    fate.verdict = verdict;
    address_up(arrival);
    return finish(ctx, arrival, &order) ? absorb(LOST) : fate;
}

static __always_inline struct fate visit_slot(struct xdp_md *ctx, struct arrival *arrival, __u32 index) {
    int is_result = arrival->kind == WIRESUM_KIND_RESULT;
    struct registers registers;
    struct slot *slot = bpf_map_lookup_elem(&slots, &index);
    if (!slot || lock(&slot->lock))
        return absorb(LOST);
    load_registers(&registers, slot);
    struct fate fate = is_result ? result(arrival, &registers) : contribution(arrival, &registers);
    struct order order = order_for(arrival, &fate, index);
    __u32 failure = carry_out(ctx, &order);
    if (!failure)
        store_registers(slot, &registers);
    unlock(&slot->lock);
    if (failure)
        return absorb(failure);
    if (fate.egress == ABSORBED)
        return fate;
    if (!is_result)
        address_up(arrival);
    return finish(ctx, arrival, &order) ? absorb(LOST) : fate;
}

static __always_inline struct fate handle(struct xdp_md *ctx, struct arrival *arrival) {
    read_fields(arrival);
    if (find_place(arrival) || !is_concerned(arrival))
        return go_past(ctx, arrival, PASSED);
    if (is_forgotten(arrival))
        return go_past(ctx, arrival, BYPASSED);
    __u32 index = slot_of(arrival);
    if (index == NO_SLOT)
        return go_past(ctx, arrival, COLLISION);
    return visit_slot(ctx, arrival, index);
}

/* What a test-run returns instead of an action of XDP: the packet was not ours. */
#define NOT_TAKEN 0xffff

/* Deals with a packet, and says in place of an action what the verdict was and where the packet goes. */
static __always_inline int judge_packet(struct xdp_md *ctx) {
    struct arrival arrival = {};
    enum parsed form = parse(ctx, &arrival.packet);
    if (form == NOT_OURS)
        return NOT_TAKEN;
    struct fate fate = form == WELL_FORMED ? handle(ctx, &arrival) : absorb(MALFORMED);
    count(NO_JOB, fate.verdict, 0);
    return fate.egress << 8 | fate.verdict;
}

SEC("xdp") int judge(struct xdp_md *ctx) { return judge_packet(ctx); }

/* Deals with a packet, and sends on what is left of it. What nothing was summed of and no way leads on for
 * is the station's, which may be the server that completes the stream's sums. */
SEC("xdp") int forward_packet(struct xdp_md *ctx) {
    struct arrival arrival = {};
    enum parsed form = parse(ctx, &arrival.packet);
    if (form == NOT_OURS)
        return XDP_PASS;
    if (form == NOTE)
        return take_note(ctx, &arrival.packet);
    __u32 job = NO_JOB;
    if (form != WELL_FORMED) {
        count(job, MALFORMED, 0);
        return XDP_DROP;
    }
    if (is_refused(&arrival.packet, &job))
        return XDP_DROP;
    __u32 frame_len = arrival.packet.frame_len, len = datagram_len(&arrival.packet);
    struct fate fate = handle(ctx, &arrival);
    int action = XDP_DROP;
    if (fate.egress != ABSORBED)
        action = fate.egress == UP ? send_up(ctx, frame_len) : send_down(ctx, frame_len);
    int is_stuck = action == XDP_DROP && fate.egress != ABSORBED;
    int is_for_station =
        is_stuck && fate.egress == UP && (fate.verdict == PASSED || fate.verdict == BYPASSED);
    count(job, fate.verdict, is_for_station ? 0 : len);
    if (is_for_station)
        return XDP_PASS;
    if (is_stuck)
        count(job, ASTRAY, 0);
    return action;
}

/* On the way out of whatever is not sent back by where it came. */
SEC("xdp/devmap") int send_copy(struct xdp_md *ctx) {
    return is_marked_as_copy(ctx) ? address_copy(ctx, ctx->egress_ifindex) : XDP_PASS;
}

SEC("xdp") int forget(struct xdp_md *ctx) { return forget_place(ctx); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
