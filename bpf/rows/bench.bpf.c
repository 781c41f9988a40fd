// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The switch for hot rows with what its tests and benchmark need beside it.
#include "program.bpf.c"

// BTF describes what a map or a variable names. These structs are in packets, or at the head of a map's
// values, so variables name them for the test that compares layouts with the mirrors in crates/xdp.
const struct check *const check_layout SEC(".rodata.layout");
const struct hot_row *const hot_row_layout SEC(".rodata.layout");
const struct opening *const opening_layout SEC(".rodata.layout");
const struct announcement *const announcement_layout SEC(".rodata.layout");

/* Deals with a packet, and says in place of an action also what the verdict was. */
SEC("xdp") int judge(struct xdp_md *ctx) { return sum_packet(ctx); }

// A repeated test-run gives a program the same memory again and again, as it was left the time before; so
// this one first turns that memory into the next packet of the round, and begins the next round after the
// last one.
struct row_feed {
    __u32 contributor; /* of the packet before */
    __u32 contributors;
    __u32 number;
    __u32 packets; /* of each contributor */
    __u32 step;    /* positions from one packet's base to the next one's */
    __u32 stream;
    __u16 first_port;
    __u16 reserved;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct row_feed);
} row_feeds SEC(".maps");

/* The next packet: the next contributor's with the same rows, or the first one's with the next. */
static __always_inline int advance(struct row_feed *feed) {
    if (++feed->contributor < feed->contributors)
        return 0;
    feed->contributor = 0;
    if (++feed->number < feed->packets)
        return 0;
    feed->number = 0;
    __u32 index = feed->stream;
    struct hot_stream *stream = bpf_map_lookup_elem(&hot_streams, &index);
    if (!stream)
        return -1;
    stream->round++;
    stream->generation++;
    return stream->round;
}

/* Writes a word, and changes the check by as much: `seen` is how the check counts it. */
static __always_inline void change_word(struct wiresum_header *header, void *word, __u32 value,
                                        int is_swapped) {
    __u32 change = value - get32(word);
    if (is_swapped)
        change = __builtin_bswap32(value) - *(__u32 *)word;
    put32(&header->check, get32(&header->check) + change);
    put32(word, value);
}

static __always_inline int make_next_packet(struct xdp_md *ctx) {
    __u32 zero = 0;
    struct row_feed *feed = bpf_map_lookup_elem(&row_feeds, &zero);
    if (!feed)
        return -1;
    int round = advance(feed);
    void *data = (void *)(long)ctx->data;
    struct udphdr *udp = data + V4_FRAME_LEN - sizeof(*udp);
    struct wiresum_header *header = data + V4_FRAME_LEN;
    struct wiresum_row_header *rows = (void *)(header + 1);
    if (round < 0 || (void *)(rows + 1) > (void *)(long)ctx->data_end)
        return -1;
    udp->source = bpf_htons(feed->first_port + feed->contributor);
    if (round)
        change_word(header, &header->round, round, 0);
    change_word(header, &header->fragment, feed->number, 0);
    change_word(header, &header->contributor,
                (get32(&header->contributor) & 0xffffff) | feed->contributor << 24, 0);
    change_word(header, &rows->base, feed->number * feed->step, 1);
    return 0;
}

/* Deals with a packet of rows as `sum_rows` does, but for the answer, which would not leave the packet as it
 * was. */
static __always_inline int sum_next_packet(struct xdp_md *ctx) {
    struct arrival arrival;
    begin_arrival(&arrival);
    if (make_next_packet(ctx) || parse_rows(ctx, &arrival.packet) != WELL_FORMED)
        return XDP_ABORTED;
    count(&arrival, add_rows(ctx, &arrival));
    return XDP_DROP;
}

SEC("xdp") int feed_and_sum(struct xdp_md *ctx) { return sum_next_packet(ctx); }

SEC("xdp") int feed_alone(struct xdp_md *ctx) { return make_next_packet(ctx) ? XDP_ABORTED : XDP_DROP; }

/* Makes an acknowledgement of a packet without rows, again and again: nothing is cut off, as it would be gone
 * the next time. */
SEC("xdp") int acknowledge_alone(struct xdp_md *ctx) {
    struct arrival arrival;
    enum parsed form =
        find_packet(ctx, directory.endpoints, directory.endpoint_count, ROW_HEADERS_LEN, &arrival.packet);
    __u32 place = 0;
    arrival.sender = bpf_map_lookup_elem(&children, &place);
    if (form != WELL_FORMED || !arrival.sender)
        return XDP_ABORTED;
    arrival.packet.payload_len = WIRESUM_ROW_HEADER_LEN;
    arrival.packet.flags = ROW_FORMAT;
    return acknowledge(ctx, &arrival);
}
