/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From a frame to a packet of rows, and its answer. */
#ifndef WIRESUM_ROWS_ARRIVAL_H
#define WIRESUM_ROWS_ARRIVAL_H

#include "../control.h"
#include "maps.h"

#define ROW_HEADERS_LEN (WIRESUM_HEADER_LEN + WIRESUM_ROW_HEADER_LEN)
/* The flags that say what lanes are; no lane is big-endian. */
#define ROW_FORMAT (WIRESUM_FLAG_LITTLE_ENDIAN | WIRESUM_FLAG_FLOAT)

static __always_inline struct wiresum_row_header *row_header(const struct packet *packet) {
    return (void *)(packet->header + 1);
}

/* Bytes of the column of offsets, in whole words. */
static __always_inline __u32 offsets_len(__u32 rows) { return (2 * rows + 3) & ~3U; }

/* Whether as much follows the headers as they say. */
static __always_inline int has_fitting_rows(const struct packet *packet) {
    const struct wiresum_row_header *header = row_header(packet);
    __u32 rows = get16(&header->rows), dim = get16(&header->dim);
    __u32 len = packet->payload_len - WIRESUM_ROW_HEADER_LEN;
    if (packet->header->kind == WIRESUM_ROW_KIND_END)
        return rows == 0 && dim == 0 && len == 0;
    return rows > 0 && dim > 0 && dim <= WIRESUM_MAX_ROW_VALUES && len == offsets_len(rows) + 4 * rows * dim;
}

/* Fills `packet`, whose payload begins with the row header, unless the frame is not for a node of ours.
 * Hellos and their like are notes. */
static __always_inline enum parsed parse_rows(struct xdp_md *ctx, struct packet *packet) {
    enum parsed form =
        find_packet(ctx, directory.endpoints, directory.endpoint_count, WIRESUM_HEADER_LEN, packet);
    if (form != WELL_FORMED)
        return form;
    const struct wiresum_header *header = packet->header;
    if (header->kind != WIRESUM_ROW_KIND_HOT_ROWS && header->kind != WIRESUM_ROW_KIND_END)
        return parse(ctx, packet) == WELL_FORMED ? NOTE : ILL_FORMED;
    packet->flags = get16(&header->flags);
    packet->payload_len = WIRESUM_ROW_HEADER_LEN + 4 * get16(&header->value_count);
    if (!is_of_this_version(header) || packet->payload_len > WIRESUM_MAX_PAYLOAD ||
        packet->payload + WIRESUM_ROW_HEADER_LEN > packet->end || !has_fitting_rows(packet) ||
        !is_all_of_frame(packet))
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
    for_each_block(words, at, payload, end, zero, WIRESUM_MAX_PAYLOAD, 4,
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
    return send_as(ctx, arrival->sender, packet->frame_len, ROW_HEADERS_LEN);
}

#endif
