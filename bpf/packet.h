/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From a frame to a checked view of a Wiresum packet, with early exits. */
#ifndef WIRESUM_PACKET_H
#define WIRESUM_PACKET_H

#include "maps.h"

static __always_inline int carries_values(__u8 kind) {
    return kind == WIRESUM_KIND_CONTRIBUTION || kind == WIRESUM_KIND_RESULT;
}

/* Whether a packet of this kind is as long as it has to be; values are judged by their format alone. */
static __always_inline int has_fitting_payload(__u8 kind, __u32 payload_len) {
    switch (kind) {
    case WIRESUM_KIND_CONTRIBUTION:
    case WIRESUM_KIND_RESULT:
        return payload_len != 0;
    case WIRESUM_KIND_PROBE:
    case WIRESUM_KIND_STATUS:
        return payload_len == 4 * WIRESUM_STATUS_WORDS;
    case WIRESUM_KIND_GOODBYE:
        return payload_len == 0;
    case WIRESUM_KIND_READY:
        return payload_len == 4 * WIRESUM_READY_WORDS;
    case WIRESUM_KIND_RATE:
        return payload_len == 4 * WIRESUM_RATE_WORDS;
    default:
        return payload_len == 4 * WIRESUM_HELLO_WORDS;
    }
}

/* Whether header and payload have a form that this version allows. */
static __always_inline int is_well_formed(struct packet *packet, __u32 datagram_len) {
    struct wiresum_header *header = packet->header;
    if (get16(&header->magic) != WIRESUM_MAGIC || header->version != WIRESUM_VERSION ||
        header->kind < WIRESUM_KIND_CONTRIBUTION || header->kind > WIRESUM_KIND_RATE)
        return 0;
    packet->flags = get16(&header->flags);
    __u32 width = carries_values(header->kind) && (packet->flags & WIRESUM_FLAG_LANES16) ? 2 : 4;
    packet->payload_len = get16(&header->value_count) * width;
    if (packet->payload_len % WIRESUM_BLOCK_LEN != 0 || packet->payload_len > WIRESUM_MAX_PAYLOAD)
        return 0;
    return has_fitting_payload(header->kind, packet->payload_len) &&
           datagram_len == WIRESUM_HEADER_LEN + packet->payload_len;
}

/* Fills `packet`, unless the frame is not for a node of ours. */
static __always_inline enum parsed parse(struct xdp_md *ctx, struct packet *packet) {
    struct udphdr *udp = find_udp(ctx, packet);
    if (!udp)
        return NOT_OURS;
    packet->source.port = udp->source;
    packet->local.port = udp->dest;
    if (!is_listening(directory.endpoints, directory.endpoint_count, &packet->local))
        return NOT_OURS;
    packet->header = (void *)(udp + 1);
    packet->payload = (void *)(packet->header + 1);
    __u32 datagram_len = bpf_ntohs(udp->len) - sizeof(*udp);
    if (packet->payload > packet->end || !is_well_formed(packet, datagram_len))
        return ILL_FORMED;
    /* The least packet is longer than Ethernet's least frame, so nothing may follow it. */
    void *payload_end = packet->payload + packet->payload_len;
    packet->zero = hidden_zero(packet->header);
    return payload_end > packet->end || payload_end < packet->end ? ILL_FORMED : WELL_FORMED;
}

#endif
