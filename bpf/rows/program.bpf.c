// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The switch that sums hot rows by position: adds and acknowledges here, and leaves ends, results and maps to
// its station. What it does with each packet is written in spec/sparse.md, and must be what crates/sparse
// does.
#include "arrival.h"
#include "deposit.h"
#include "round.h"

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

/* Enters a packet's number. */
static __always_inline void note_number(struct reception *reception, struct numbers *word, __u32 number) {
    word->seen |= 1U << (number % NUMBERS_PER_WORD);
    reception->count++;
    if (reception->least <= number)
        reception->least = number + 1;
}

/* Tells the station that the open round is complete. A note that finds no room is not needed: the station
 * looks at streams when it takes those before it. */
static __always_inline void note_completion(__u32 index, __u32 round) {
    struct check *check = bpf_ringbuf_reserve(&checks, sizeof(*check), 0);
    if (!check)
        return;
    check->stream = index;
    check->position = round;
    bpf_ringbuf_submit(check, 0);
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
    enum verdict verdict = take_rows(&rows, stream->lanes);
    if (verdict != ADDED)
        return verdict;
    note_number(reception, word, number);
    if (completes(stream, reception, contributor))
        note_completion(arrival->stream_index, round);
    return ADDED;
}

static __always_inline enum verdict add_rows(struct xdp_md *ctx, struct arrival *arrival) {
    if (!is_of_ours(arrival, 0))
        return FOREIGN;
    if (!comes_from_child(arrival))
        return BAD_CONTRIBUTOR;
    if (exceeds_quota(arrival))
        return OVER_QUOTA;
    if (is_damaged(ctx, arrival))
        return DAMAGED;
    __u32 index = arrival->stream_index;
    struct hot_stream *stream = bpf_map_lookup_elem(&hot_streams, &index);
    if (!stream || lock(&stream->lock))
        return CONTENDED;
    enum verdict verdict = judge_rows(ctx, arrival, stream);
    unlock(&stream->lock);
    return verdict;
}

/* Ends are the station's, at a bounded rate. */
static __always_inline enum verdict pass_end(struct xdp_md *ctx, struct arrival *arrival) {
    if (!is_of_ours(arrival, 0))
        return FOREIGN;
    if (!comes_from_child(arrival))
        return BAD_CONTRIBUTOR;
    if (is_over_budget(CONTROL_BUDGET(arrival->job_index), ROW_HEADERS_LEN))
        return OVER_QUOTA;
    return is_damaged(ctx, arrival) ? DAMAGED : CONTROL;
}

static __always_inline enum verdict handle(struct xdp_md *ctx, struct arrival *arrival, enum parsed form) {
    __u8 kind = arrival->packet.header->kind;
    if (form == NOTE)
        return kind == WIRESUM_KIND_HELLO || kind == WIRESUM_KIND_GOODBYE ? hear(ctx, arrival) : MALFORMED;
    return kind == WIRESUM_ROW_KIND_END ? pass_end(ctx, arrival) : add_rows(ctx, arrival);
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

static __always_inline int sum_packet(struct xdp_md *ctx) {
    struct arrival arrival;
    arrival.stream_index = 0;
    arrival.job_index = NO_JOB;
    arrival.sender = 0;
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
