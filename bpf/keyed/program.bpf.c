// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The switch that sums pairs of hot keys and values: adds and acknowledges here, and leaves sums and maps to
// its station. What it does with each packet is written in spec/keyed.md, and must be what crates/switch
// does.
#include "../lock.h"
#include "pairs.h"

static __always_inline enum parsed parse_pairs(struct xdp_md *ctx, struct packet *packet) {
    __u32 kinds = ROW_KIND_BIT(WIRESUM_ROW_KIND_PUSH) | ROW_KIND_BIT(WIRESUM_ROW_KIND_END) |
                  ROW_KIND_BIT(WIRESUM_ROW_KIND_ACKNOWLEDGEMENT);
    enum parsed form = parse_row_packet(ctx, packet, kinds);
    if (form != WELL_FORMED || packet->header->kind == WIRESUM_ROW_KIND_ACKNOWLEDGEMENT)
        return form;
    const struct wiresum_row_header *header = row_header(packet);
    __u32 wanted = get16(&header->rows) * (8 + 4 * get16(&header->dim));
    return has_fitting_len(packet, wanted) ? WELL_FORMED : ILL_FORMED;
}

/* Whether a packet has a number that can be, and values that are int32, one for each key. */
static __always_inline int has_number(const struct arrival *arrival, const struct keyed_table *table,
                                      __u32 number, int is_end) {
    if (is_end)
        return number <= table->packets;
    return number < table->packets && get16(&row_header(&arrival->packet)->dim) == 1 &&
           (arrival->packet.flags & ROW_FORMAT) == WIRESUM_FLAG_LITTLE_ENDIAN;
}

/* The cell for a packet's number; NULL if there is none. */
static __always_inline struct cell *find_number(const struct keyed_table *table, __u32 worker, __u32 number) {
    __u32 at = table->first_number + worker * table->number_cells + number / NUMBERS_PER_CELL;
    struct cell *cell = bpf_map_lookup_elem(&keyed_numbers, &at);
    if (cell)
        change_cell(cell, table->tag, 0);
    return cell;
}

/* Counts a packet that is in, or what an end has announced. Returns whether the iteration has become
 * complete. */
static __always_inline int count_in(const struct keyed_table *table, __u32 index, __u32 worker,
                                    __u32 change) {
    __u32 place = index * KEYED_WORKERS + worker;
    struct cell *missing = bpf_map_lookup_elem(&keyed_missing, &place);
    struct cell *done = bpf_map_lookup_elem(&keyed_done, &index);
    if (!missing || !done)
        return 0;
    change_cell(missing, table->tag, change);
    if (missing->held)
        return 0;
    change_cell(done, table->tag, 0);
    done->held |= 1U << (worker % KEYED_WORKERS);
    return done->held == table->members;
}

static __always_inline struct pairs pairs_of(struct xdp_md *ctx, const struct arrival *arrival,
                                             const struct keyed_table *table, struct scratch *scratch) {
    struct pairs pairs = {.ctx = ctx, .scratch = scratch};
    pairs.count = get16(&row_header(&arrival->packet)->rows);
    pairs.keys_at = arrival->packet.frame_len + ROW_HEADERS_LEN;
    pairs.values_at = pairs.keys_at + 8 * pairs.count;
    pairs.table = arrival->stream_index;
    pairs.tag = table->tag;
    return pairs;
}

/* What becomes of a packet of the job's incarnation, while the table is locked. */
static __always_inline enum verdict judge_packet(struct xdp_md *ctx, const struct arrival *arrival,
                                                 const struct keyed_table *table, struct scratch *scratch) {
    const struct wiresum_header *header = arrival->packet.header;
    const struct wiresum_row_header *rows = row_header(&arrival->packet);
    int is_end = header->kind == WIRESUM_ROW_KIND_END;
    __u32 round = get32(&header->round), stamp = get32(&rows->stamp), worker = header->contributor;
    __u32 number = is_end ? get32(&rows->count) : get32(&header->fragment);
    if (table->job_key != arrival->job_key)
        return FOREIGN;
    if (round != table->round)
        return round < table->round ? STALE : EARLY;
    if (stamp > table->map_version)
        return EARLY;
    if (!has_number(arrival, table, number, is_end))
        return WRONG;
    struct cell *seen = find_number(table, worker, number);
    __u32 bit = 1U << (number % NUMBERS_PER_CELL);
    if (!seen)
        return WRONG;
    if (seen->held & bit)
        return DUPLICATE;
    if (stamp != table->map_version)
        return WRONG;
    if (!is_end) {
        struct pairs pairs = pairs_of(ctx, arrival, table, scratch);
        if (!have_homes(&pairs))
            return WRONG;
        bpf_loop(pairs.count, add_pair, &pairs, 0);
    }
    seen->held |= bit;
    if (count_in(table, arrival->stream_index, worker, is_end ? number : -1U))
        submit_check(arrival->stream_index, round); /* tells the station that the iteration is complete */
    return ADDED;
}

/* What the server says to the station, which knows who has sent it. The server has another number. */
static __always_inline enum verdict pass_on(struct arrival *arrival, int is_ours) {
    if (!is_ours)
        return FOREIGN;
    return get16(&arrival->packet.header->node) == arrival->stream->node ? MALFORMED : CONTROL;
}

/* Packets of joining have the incarnation's key, however often that of pairs is renewed. */
static __always_inline enum verdict handle_note(struct xdp_md *ctx, struct arrival *arrival, __u8 kind) {
    if (kind == WIRESUM_KIND_WELCOME || kind == WIRESUM_KIND_REFUSAL)
        return pass_on(arrival, names_stream(arrival) && is_of_incarnation(arrival));
    return kind == WIRESUM_KIND_HELLO || kind == WIRESUM_KIND_GOODBYE ? hear(ctx, arrival) : MALFORMED;
}

static __always_inline enum verdict handle(struct xdp_md *ctx, struct arrival *arrival, enum parsed form) {
    __u8 kind = arrival->packet.header->kind;
    if (form == NOTE)
        return handle_note(ctx, arrival, kind);
    if (kind == WIRESUM_ROW_KIND_ACKNOWLEDGEMENT)
        return pass_on(arrival, is_of_round(arrival));
    enum verdict verdict = admit(ctx, arrival);
    if (verdict != ADDED)
        return verdict;
    __u32 index = arrival->stream_index, zero = 0;
    struct keyed_table *table = bpf_map_lookup_elem(&keyed_tables, &index);
    struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
    if (!table || !scratch || lock(&table->lock))
        return CONTENDED;
    verdict = judge_packet(ctx, arrival, table, scratch);
    unlock(&table->lock);
    return verdict;
}

static __always_inline int sum_packet(struct xdp_md *ctx) {
    struct arrival arrival;
    begin_arrival(&arrival);
    enum parsed form = parse_pairs(ctx, &arrival.packet);
    if (form == NOT_OURS)
        return WITH_VERDICT(XDP_PASS, CONTROL);
    enum verdict verdict = form == ILL_FORMED ? MALFORMED : handle(ctx, &arrival, form);
    return WITH_VERDICT(conclude_rows(ctx, &arrival, verdict), verdict);
}

SEC("xdp") int sum_pairs(struct xdp_md *ctx) { return sum_packet(ctx) & 0xff; }

/* Deals with a packet, and says in place of an action also what the verdict was: for test-runs. */
SEC("xdp") int judge(struct xdp_md *ctx) { return sum_packet(ctx); }

/* The station opens an iteration through the kernel's test-run, on a frame that is the order. */
struct keyed_opening {
    __u64 job_key;
    __u32 table;
    __u32 round;
    __u32 tag;
    __u32 map_version;
};

SEC("xdp") int open_iteration(struct xdp_md *ctx) {
    const struct keyed_opening *opening = (void *)(long)ctx->data;
    if ((void *)(opening + 1) > (void *)(long)ctx->data_end)
        return CONTENDED;
    __u32 index = opening->table;
    struct keyed_table *table = bpf_map_lookup_elem(&keyed_tables, &index);
    if (!table || lock(&table->lock))
        return CONTENDED;
    table->job_key = opening->job_key;
    table->round = opening->round;
    table->tag = opening->tag;
    table->map_version = opening->map_version;
    unlock(&table->lock);
    return CONTROL;
}

// BTF describes what a map or a variable names: for the test that compares layouts with the mirrors.
const struct keyed_opening *const keyed_opening_layout SEC(".rodata.layout");
const struct check *const keyed_check_layout SEC(".rodata.layout");

char LICENSE[] SEC("license") = "Dual BSD/GPL";
