/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From a frame to a packet of a switch network, and to the place that it belongs to. */
#ifndef WIRESUM_SWITCH_ARRIVAL_H
#define WIRESUM_SWITCH_ARRIVAL_H

#include "maps.h"

/* Addresses every switch on the way that sums for the packet's stream. */
#define ANY_NODE 0xffff

enum egress { ABSORBED, UP, DOWN };

/* A packet, and what becomes of its header. */
struct arrival {
    struct packet packet;
    const struct place *place;
    __u64 key; /* what a slot that holds its fragment says */
    __u64 contributors;
    __u32 promised; /* sum of lanes, by the packet's check */
    __u32 fragment;
    __u32 slot;
    __u16 flags;
    __u16 node;
    __u8 kind;
    __u8 worker;
    __u8 expected;
    __u8 priority;
};

static __always_inline struct wiresum_switch_header *switch_header(const struct wiresum_header *header) {
    return (void *)(header + 1);
}

static __always_inline __u64 get_contributors(const struct wiresum_header *header) {
    const void *at = &switch_header(header)->contributors;
    return (__u64)get32(at) << 32 | get32(at + 4);
}

/* The share of both headers in the check. */
static __always_inline __u32 sum_headers(const struct wiresum_header *header) {
    const void *at = switch_header(header);
    return sum_header(header) + get32(at) + get32(at + 4) + get32(at + 8);
}

/* A result that refuses may have no values. */
static __always_inline int has_fitting_values(const struct packet *packet) {
    __u8 kind = packet->header->kind;
    if (packet->payload_len == 0)
        return kind == WIRESUM_KIND_RESULT && (packet->flags & WIRESUM_FLAG_REFUSED);
    return packet->payload_len % WIRESUM_BLOCK_LEN == 0 && packet->payload_len <= WIRESUM_PAGE_PAYLOAD;
}

static __always_inline int is_well_formed(struct packet *packet) {
    struct wiresum_header *header = packet->header;
    if (!is_of_this_version(header) ||
        (header->kind != WIRESUM_KIND_CONTRIBUTION && header->kind != WIRESUM_KIND_RESULT))
        return 0;
    packet->flags = get16(&header->flags);
    packet->payload_len = get16(&header->value_count) * (packet->flags & WIRESUM_FLAG_LANES16 ? 2 : 4);
    return (packet->flags & WIRESUM_FLAG_SWITCHED) && header->contributor < WIRESUM_MAX_SWITCHED_WORKERS &&
           has_fitting_values(packet);
}

/* Whether it is a hello or an answer to one, which are the station's: it reads them whole. */
static __always_inline int is_note(const struct packet *packet) {
    const struct wiresum_header *header = packet->header;
    __u8 kind = header->kind;
    return is_of_this_version(header) &&
           (kind == WIRESUM_KIND_HELLO || kind == WIRESUM_KIND_WELCOME || kind == WIRESUM_KIND_REFUSAL) &&
           !(get16(&header->flags) & WIRESUM_FLAG_SWITCHED) &&
           packet->datagram_len == WIRESUM_HEADER_LEN + 4 * WIRESUM_HELLO_WORDS;
}

/* Fills `packet`, unless the frame is not for this switch. */
static __always_inline enum parsed parse(struct xdp_md *ctx, struct packet *packet) {
    const __u32 headers_len = WIRESUM_HEADER_LEN + WIRESUM_SWITCH_HEADER_LEN;
    enum parsed form = find_packet(ctx, table.endpoints, table.endpoint_count, headers_len, packet);
    if (form != WELL_FORMED)
        return form;
    if (is_note(packet))
        return NOTE;
    if (!is_well_formed(packet) || !is_all_of_frame(packet, 0))
        return ILL_FORMED;
    packet->zero = hidden_zero(packet->header);
    return WELL_FORMED;
}

/* What policies look at. */
static __always_inline void read_fields(struct arrival *arrival) {
    const struct wiresum_header *header = arrival->packet.header;
    arrival->flags = arrival->packet.flags;
    arrival->promised = get32(&header->check) - sum_headers(header);
    arrival->contributors = get_contributors(header);
    arrival->fragment = get32(&header->fragment);
    arrival->slot = get32(&switch_header(header)->slot);
    arrival->node = get16(&header->node);
    arrival->kind = header->kind;
    arrival->worker = header->contributor;
    arrival->expected = header->expected;
    arrival->priority = header->priority;
}

/* The sender among the contributors of its cohort. */
static __always_inline __u64 own_bit(const struct arrival *arrival) {
    return 1ULL << (arrival->worker % WIRESUM_COHORT_WORKERS);
}

/* Finds the stream that a packet names; fails if it is not summed here. */
static __always_inline int find_place(struct arrival *arrival) {
    const struct wiresum_header *header = arrival->packet.header;
    __u32 cohort = arrival->worker / WIRESUM_COHORT_WORKERS;
    __u64 key = PLACE_KEY(get16(&header->job), get16(&header->sub_model), cohort);
    const __u64 *keys = pinned(table.keys);
    __u32 index = MAX_PLACES;
    for (__u32 i = 0; i < MAX_PLACES && i < table.place_count; i++) {
        if (keys[i] == key) {
            index = i;
            break;
        }
    }
    if (index == MAX_PLACES)
        return -1;
    index = hide(index, arrival->packet.zero) % MAX_PLACES;
    arrival->place = pinned((void *)&table.places[index]);
    arrival->key = (__u64)(index + 1) << 32 | arrival->fragment;
    return 0;
}

/* Whether a packet has to do with what is summed here; else it passes. */
static __always_inline int is_concerned(const struct arrival *arrival) {
    if (arrival->packet.payload_len > switch_config.payload_len ||
        (arrival->flags & MERGED_LANES) != arrival->place->lanes)
        return 0;
    if (arrival->kind == WIRESUM_KIND_RESULT)
        return !(arrival->flags & WIRESUM_FLAG_REFUSED);
    return (arrival->node == ANY_NODE || arrival->node == switch_config.node) && arrival->contributors &&
           !(arrival->contributors & ~arrival->place->members);
}

/* Whether the packet may be a part of what the switch has forgotten. */
static __always_inline int is_forgotten(const struct arrival *arrival) {
    __u32 index = (arrival->key >> 32) - 1;
    return arrival->kind == WIRESUM_KIND_CONTRIBUTION && arrival->flags & WIRESUM_FLAG_RETRANSMISSION &&
           *(const __u64 *)pinned(&table.forgotten) >> index % MAX_PLACES & 1;
}

#endif
