/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From a frame to a packet of rows or of pairs, and its answer. */
#ifndef WIRESUM_ROWS_ARRIVAL_H
#define WIRESUM_ROWS_ARRIVAL_H

#include "../control.h"
#include "maps.h"

#define ROW_HEADERS_LEN (WIRESUM_HEADER_LEN + WIRESUM_ROW_HEADER_LEN)
/* A mask of the places that a round is moved by, for the compiler. */
#define MAX_ROUND_SHIFT 31
/* The flags that say what lanes are; no lane is big-endian. */
#define ROW_FORMAT (WIRESUM_FLAG_LITTLE_ENDIAN | WIRESUM_FLAG_FLOAT)

static __always_inline struct wiresum_row_header *row_header(const struct packet *packet) {
    return (void *)(packet->header + 1);
}

/* Whether as much follows the headers as an end says, which has nothing, or rows of so many bytes. */
static __always_inline int has_fitting_len(const struct packet *packet, __u32 wanted) {
    const struct wiresum_row_header *header = row_header(packet);
    __u32 rows = get16(&header->rows), dim = get16(&header->dim);
    __u32 len = packet->payload_len - WIRESUM_ROW_HEADER_LEN;
    if (packet->header->kind == WIRESUM_ROW_KIND_END)
        return rows == 0 && dim == 0 && len == 0;
    return rows > 0 && dim > 0 && dim <= WIRESUM_MAX_ROW_VALUES && len == wanted;
}

/* The bit of a kind of packet of rows, among those that a program takes. */
#define ROW_KIND_BIT(kind) (1U << ((kind) - WIRESUM_ROW_KIND_PUSH))

/* Fills `packet`, whose payload begins with the row header, unless the frame is not for a node of ours.
 * Hellos and their like are notes; other kinds than `kinds` are ill-formed. Whether the columns fit is not
 * looked at. */
static __always_inline enum parsed parse_row_packet(struct xdp_md *ctx, struct packet *packet, __u32 kinds) {
    enum parsed form =
        find_packet(ctx, directory.endpoints, directory.endpoint_count, WIRESUM_HEADER_LEN, packet);
    if (form != WELL_FORMED)
        return form;
    const struct wiresum_header *header = packet->header;
    __u32 kind = header->kind;
    if (kind < WIRESUM_ROW_KIND_PUSH || kind > WIRESUM_ROW_KIND_PUT || !(kinds & ROW_KIND_BIT(kind)))
        return parse(ctx, packet) == WELL_FORMED ? NOTE : ILL_FORMED;
    packet->flags = get16(&header->flags);
    packet->payload_len = WIRESUM_ROW_HEADER_LEN + 4 * get16(&header->value_count);
    if (!is_of_this_version(header) || packet->payload_len > WIRESUM_PAGE_PAYLOAD ||
        packet->payload + WIRESUM_ROW_HEADER_LEN > packet->end || !is_all_of_frame(packet, 0))
        return ILL_FORMED;
    packet->zero = hidden_zero(header);
    return WELL_FORMED;
}

/* The sum of all words after the header. A global function, so that the verifier goes through its loops
 * once. */
__attribute__((noinline)) __u32 sum_words_of_rows(struct xdp_md *ctx, __u32 frame_len, __u32 payload_len) {
    struct wiresum_header *header = (void *)(long)ctx->data + (frame_len & MAX_FRAME_LEN);
    void *payload = header + 1, *end = (void *)(long)ctx->data_end;
    struct sums sums = {};
    if (payload > end)
        return 0;
    __u16 zero = hidden_zero(header);
    for_each_block(words, at, payload, end, zero, WIRESUM_PAGE_PAYLOAD, 4,
                   sum_block(&sums, words, LITTLE_ENDIAN_LANES));
    __u32 next = (payload_len / WIRESUM_BLOCK_LEN * WIRESUM_BLOCK_LEN + zero) & OFFSETS;
    for (__u32 rest = 1; rest < WIRESUM_BLOCK_LEN / 4; rest++, next += 4) {
        const void *word = pinned(payload + next);
        if (word + 4 > end)
            break;
        sums.odd += load_lane32(word, LITTLE_ENDIAN_LANES);
    }
    return fold_sums(&sums, 0);
}

static __always_inline int is_damaged(struct xdp_md *ctx, const struct arrival *arrival) {
    return sum_words_of_rows(ctx, arrival->packet.frame_len, arrival->packet.payload_len) !=
           promised_sum(arrival);
}

/* Whether a packet of rows is of the running incarnation of its job: it has a key that counts in its round,
 * which stands for as many positions as a sender can have packets in it. */
static __always_inline int is_of_round(struct arrival *arrival) {
    const struct wiresum_header *header = arrival->packet.header;
    if (!names_stream(arrival) || !is_running(arrival))
        return 0;
    __u32 position = get32(&header->round) << (arrival->stream->round_shift & MAX_ROUND_SHIFT);
    return is_key_of_values(arrival->stream, position, get64(&header->job_key));
}

/* Whether it is for this node, too. */
static __always_inline int is_of_our_round(struct arrival *arrival) {
    return is_of_round(arrival) && get16(&arrival->packet.header->node) == arrival->stream->node;
}

/* What a packet of rows is if it may be added: from a child of ours, within its job's quota, and whole. */
static __always_inline enum verdict admit(struct xdp_md *ctx, struct arrival *arrival) {
    if (!is_of_our_round(arrival))
        return FOREIGN;
    if (!comes_from_child(arrival))
        return BAD_CONTRIBUTOR;
    if (exceeds_quota(arrival))
        return OVER_QUOTA;
    return is_damaged(ctx, arrival) ? DAMAGED : ADDED;
}

/* Turns a packet of rows into its acknowledgement, and sends that to where it came from. */
static __always_inline int acknowledge(struct xdp_md *ctx, const struct arrival *arrival) {
    const struct packet *packet = &arrival->packet;
    struct wiresum_header *header = packet->header;
    struct wiresum_row_header *rows = row_header(packet);
    header->kind = WIRESUM_ROW_KIND_ACKNOWLEDGEMENT;
    put16(&header->value_count, 0);
    put16(&header->flags, packet->flags & ROW_FORMAT);
    rows->count = rows->base = 0;
    rows->rows = rows->dim = 0;
    seal(header, load_lane32(rows, LITTLE_ENDIAN_LANES)); /* the stamp: all else is zero */
    int excess = packet->payload_len - WIRESUM_ROW_HEADER_LEN;
    if (bpf_xdp_adjust_tail(ctx, -excess))
        return XDP_DROP;
    if (address_as(ctx, arrival->sender, packet->frame_len, ROW_HEADERS_LEN))
        return XDP_ABORTED;
    __u32 ifindex = arrival->sender->ifindex;
    return ifindex == ctx->ingress_ifindex ? XDP_TX : bpf_redirect(ifindex, 0);
}

/* Counts the packet, and does what its verdict says. What is wrong goes to the station, which says so to its
 * sender, and ends the job. */
static __always_inline int conclude_rows(struct xdp_md *ctx, const struct arrival *arrival,
                                         enum verdict verdict) {
    count(arrival, verdict);
    switch (verdict) {
    case CONTROL:
    case WRONG:
        return XDP_PASS;
    case ADDED:
    case DUPLICATE:
    case STALE:
        return acknowledge(ctx, arrival);
    default:
        return XDP_DROP;
    }
}

/* What a test-run returns in place of an action alone. */
#define WITH_VERDICT(action, verdict) ((verdict) << 8 | (action))

#endif
