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
    case WIRESUM_KIND_READY:
        return payload_len == 4 * WIRESUM_READY_WORDS;
    case WIRESUM_KIND_RATE:
        return payload_len == 4 * WIRESUM_RATE_WORDS;
    default:
        return payload_len == 4 * WIRESUM_HELLO_WORDS;
    }
}

/* Whether header and payload have a form that this version allows. */
static __always_inline int is_well_formed(struct packet *packet) {
    struct wiresum_header *header = packet->header;
    if (!is_of_this_version(header) || header->kind < WIRESUM_KIND_CONTRIBUTION ||
        header->kind > WIRESUM_KIND_RATE)
        return 0;
    packet->flags = get16(&header->flags);
    __u32 width = carries_values(header->kind) && (packet->flags & WIRESUM_FLAG_LANES16) ? 2 : 4;
    packet->payload_len = get16(&header->value_count) * width;
    return packet->payload_len % WIRESUM_BLOCK_LEN == 0 && packet->payload_len <= WIRESUM_MAX_PAYLOAD &&
           has_fitting_payload(header->kind, packet->payload_len);
}

/* Bytes behind the values, where the packet says that there is a proof. */
static __always_inline __u32 proof_len(const struct packet *packet) {
    __u32 is_proven = packet->flags / WIRESUM_FLAG_PROVEN & carries_values(packet->header->kind);
    return is_proven * WIRESUM_PROOF_LEN;
}

/* Fills `packet`, unless the frame is not for a node of ours. */
static __always_inline enum parsed parse(struct xdp_md *ctx, struct packet *packet) {
    enum parsed form =
        find_packet(ctx, directory.endpoints, directory.endpoint_count, WIRESUM_HEADER_LEN, packet);
    if (form != WELL_FORMED)
        return form;
    if (!is_well_formed(packet) || !is_all_of_frame(packet, proof_len(packet)))
        return ILL_FORMED;
    packet->zero = hidden_zero(packet->header);
    return WELL_FORMED;
}

#endif
