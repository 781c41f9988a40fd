// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The switch that sums hot rows by position: adds and acknowledges here, and leaves ends, results and maps to
// its station. What it does with each packet is written in spec/sparse.md, and must be what crates/sparse
// does.
#include "arrival.h"
#include "deposit.h"
#include "round.h"

/* Bytes of the column of offsets, in whole words. */
static __always_inline __u32 offsets_len(__u32 rows) { return (2 * rows + 3) & ~3U; }

/* Rows and ends are read here; all other kinds pass as they are. */
static __always_inline enum parsed parse_rows(struct xdp_md *ctx, struct packet *packet) {
    enum parsed form = parse_row_packet(ctx, packet, ~0U);
    if (form != WELL_FORMED)
        return form;
    __u8 kind = packet->header->kind;
    const struct wiresum_row_header *header = row_header(packet);
    __u32 rows = get16(&header->rows), width = width_of(format_of(packet->flags));
    __u32 wanted = offsets_len(rows) + ((width * rows * get16(&header->dim) + 3) & ~3U);
    int is_read = kind == WIRESUM_ROW_KIND_END || kind == WIRESUM_ROW_KIND_HOT_ROWS;
    return is_read && !has_fitting_len(packet, wanted) ? ILL_FORMED : WELL_FORMED;
}

static __always_inline struct rows rows_of(struct xdp_md *ctx, const struct arrival *arrival,
                                           const struct hot_stream *stream) {
    const struct wiresum_row_header *header = row_header(&arrival->packet);
    struct rows rows = {.ctx = ctx};
    rows.bit = contributor_bit(arrival);
    rows.count = get16(&header->rows);
    rows.base = get32(&header->base);
    rows.at = arrival->packet.frame_len + ROW_HEADERS_LEN;
    rows.values_at = rows.at + offsets_len(rows.count);
    rows.generation = stream->generation;
    rows.first_row = stream->first_row;
    rows.positions = stream->positions;
    rows.dim = stream->dim;
    rows.format = format_of(arrival->packet.flags);
    rows.zero = arrival->packet.zero;
    return rows;
}

/* Whether rows are such as the stream's, and their number can be. */
static __always_inline int agrees(const struct arrival *arrival, const struct hot_stream *stream,
                                  const struct reception *reception, __u32 number) {
    const struct wiresum_row_header *header = row_header(&arrival->packet);
    return get32(&header->stamp) == stream->map_version && get16(&header->dim) == stream->dim &&
           (arrival->packet.flags & ROW_FORMAT) == (stream->lanes | WIRESUM_FLAG_LITTLE_ENDIAN) &&
           number < reception->announced;
}

/* Tells the station that more of the open round is in. There is one note of a stream at a time, as the
 * station looks at all that has come when it takes it; so there is room for notes of all streams. */
static __always_inline void note_progress(struct hot_stream *stream, __u32 index) {
    if (stream->is_noted)
        return;
    if (submit_check(index, stream->round))
        stream->is_noted = 1;
}

/* What becomes of rows of the job's incarnation, while the stream is locked. */
static __always_inline enum verdict judge_rows(struct xdp_md *ctx, const struct arrival *arrival,
                                               struct hot_stream *stream) {
    const struct wiresum_header *header = arrival->packet.header;
    __u32 round = get32(&header->round), number = get32(&header->fragment), contributor = header->contributor;
    if (stream->job_key != arrival->job_key)
        return FOREIGN;
    if (round != stream->round)
        return round < stream->round ? STALE : EARLY;
    if (get32(&row_header(&arrival->packet)->stamp) > stream->map_version)
        return EARLY;
    struct reception *reception = find_reception(stream, arrival->stream_index, contributor);
    struct numbers *word = find_numbers(stream, contributor, number);
    if (word && word->seen >> (number % NUMBERS_PER_WORD) & 1)
        return DUPLICATE;
    if (!reception || !word || !agrees(arrival, stream, reception, number))
        return WRONG;
    struct rows rows = rows_of(ctx, arrival, stream);
    rows.least = stream->left;
    enum verdict verdict = take_rows(&rows);
    if (verdict != ADDED)
        return verdict;
    note_number(stream, reception, word, contributor, number, rows.base + rows.previous);
    completes(stream, reception, contributor);
    note_progress(stream, arrival->stream_index);
    return ADDED;
}

static __always_inline enum verdict add_rows(struct xdp_md *ctx, struct arrival *arrival) {
    enum verdict verdict = admit(ctx, arrival);
    if (verdict != ADDED)
        return verdict;
    __u32 index = arrival->stream_index;
    struct hot_stream *stream = bpf_map_lookup_elem(&hot_streams, &index);
    if (!stream || lock(&stream->lock))
        return CONTENDED;
    verdict = judge_rows(ctx, arrival, stream);
    unlock(&stream->lock);
    return verdict;
}

/* What is the station's: acknowledgements of results, and what servers say. Those who sent it are known where
 * it is read; workers are known here too. */
static __always_inline enum verdict pass_on(struct arrival *arrival, int is_ours) {
    if (!is_ours)
        return FOREIGN;
    int is_from_worker = get16(&arrival->packet.header->node) == arrival->stream->node;
    return is_from_worker && !comes_from_child(arrival) ? BAD_CONTRIBUTOR : CONTROL;
}

/* Ends are the station's, at a bounded rate. */
static __always_inline enum verdict pass_end(struct xdp_md *ctx, struct arrival *arrival) {
    if (!is_of_our_round(arrival))
        return FOREIGN;
    if (!comes_from_child(arrival))
        return BAD_CONTRIBUTOR;
    if (is_over_budget(CONTROL_BUDGET(arrival->job_index), ROW_HEADERS_LEN))
        return OVER_QUOTA;
    return is_damaged(ctx, arrival) ? DAMAGED : CONTROL;
}

/* Packets of joining have the incarnation's key, however often that of rows is renewed. */
static __always_inline enum verdict handle_note(struct xdp_md *ctx, struct arrival *arrival, __u8 kind) {
    if (kind == WIRESUM_KIND_WELCOME || kind == WIRESUM_KIND_REFUSAL)
        return pass_on(arrival, names_stream(arrival) && is_of_incarnation(arrival));
    return kind == WIRESUM_KIND_HELLO || kind == WIRESUM_KIND_GOODBYE ? hear(ctx, arrival) : MALFORMED;
}

static __always_inline enum verdict handle(struct xdp_md *ctx, struct arrival *arrival, enum parsed form) {
    __u8 kind = arrival->packet.header->kind;
    if (form == NOTE)
        return handle_note(ctx, arrival, kind);
    if (kind == WIRESUM_ROW_KIND_END)
        return pass_end(ctx, arrival);
    return kind == WIRESUM_ROW_KIND_HOT_ROWS ? add_rows(ctx, arrival)
                                             : pass_on(arrival, is_of_round(arrival));
}

static __always_inline int sum_packet(struct xdp_md *ctx) {
    struct arrival arrival;
    begin_arrival(&arrival);
    enum parsed form = parse_rows(ctx, &arrival.packet);
    if (form == NOT_OURS)
        return WITH_VERDICT(XDP_PASS, CONTROL);
    enum verdict verdict = form == ILL_FORMED ? MALFORMED : handle(ctx, &arrival, form);
    return WITH_VERDICT(conclude_rows(ctx, &arrival, verdict), verdict);
}

SEC("xdp") int sum_rows(struct xdp_md *ctx) { return sum_packet(ctx) & 0xff; }

SEC("xdp") int open_round(struct xdp_md *ctx) { return open_stream(ctx); }

SEC("xdp") int announce(struct xdp_md *ctx) { return announce_packets(ctx); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
