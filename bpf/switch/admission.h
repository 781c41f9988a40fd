/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Who may have values summed or forwarded here, and how neighbours come to be known. */
#ifndef WIRESUM_SWITCH_ADMISSION_H
#define WIRESUM_SWITCH_ADMISSION_H

#include "../quota.h"
#include "arrival.h"

static __always_inline void count(__u32 job, __u32 verdict, __u32 len) {
    struct tally *tally = bpf_map_lookup_elem(&tallies, &job);
    /* Or the compiler would leave out a mask that the verifier wants to see. */
    asm volatile("" : "+r"(verdict));
    if (!tally)
        return;
    tally->verdicts[verdict % VERDICT_RANGE]++;
    tally->bytes += len;
}

/* Whether values may carry a key: that of their position as it is now, or, around a renewal, the next one
 * or the last. */
static __always_inline int is_key_of_values(const struct stream_keys *stream, __u32 position, __u64 key) {
    __u32 generation = position >> GENERATION_SHIFT;
    return key == stream->keys[0][generation] || key == stream->keys[1][generation] ||
           key == stream->keys[2][generation];
}

/* Whether a key is that of a stream's values at a position, or of a stream without keys its job's
 * incarnation's. */
static __always_inline int takes_key(__u32 job, __u32 sub_model, __u32 position, __u64 key, __u64 otherwise) {
    const struct stream_keys *streams = pinned(table.streams);
    __u64 stream = STREAM_KEY(job, sub_model);
    for (__u32 i = 0; i < MAX_PLACES && i < table.stream_count; i++)
        if (streams[i].stream == stream)
            return is_key_of_values(&streams[i], position, key);
    return key == otherwise;
}

/* The index of a job that runs, if values at this position carry this key, or NO_JOB. As `carry_out`, this
 * and the next are checked once each. */
__attribute__((noinline)) __u32 find_job(__u32 job, __u32 sub_model, __u32 position, __u64 key) {
    const struct running *jobs = pinned(table.jobs);
    for (__u32 i = 0; i < MAX_JOBS; i++)
        if (jobs[i].is_running && jobs[i].job == job)
            return takes_key(job, sub_model, position, key, jobs[i].key) ? i : NO_JOB;
    return NO_JOB;
}

/* Whether someone with this address, which is mapped into IPv6, is next to the switch. */
__attribute__((noinline)) int is_next_to_it(__u64 high, __u64 low, __u32 port) {
    struct endpoint source = {.address = {high, low}, .port = port};
    return bpf_map_lookup_elem(&acquaintances, &source) != 0;
}

/* Bytes of a packet's datagram. */
static __always_inline __u32 datagram_len(const struct packet *packet) {
    return WIRESUM_HEADER_LEN + WIRESUM_SWITCH_HEADER_LEN + packet->payload_len;
}

/* Whether a packet of values is kept out, and counted. `job` is the index of its job. */
static __always_inline int is_refused(const struct packet *packet, __u32 *job) {
    const struct wiresum_header *header = packet->header;
    const struct endpoint *source = &packet->source;
    *job = find_job(get16(&header->job), get16(&header->sub_model), get32(&header->fragment),
                    get64(&header->job_key));
    if (*job == NO_JOB || !is_next_to_it(source->address[0], source->address[1], source->port)) {
        count(NO_JOB, STRANGERS, 0);
        return 1;
    }
    if (header->kind != WIRESUM_KIND_CONTRIBUTION || !is_over_budget(*job, datagram_len(packet)))
        return 0;
    count(*job, OVER_QUOTA, datagram_len(packet));
    return 1;
}

/* Notes how a neighbour was heard; its hello, or answer, goes to the station. So do those of others, at a
 * bounded rate: people want to know why they get no answer. */
static __always_inline int take_note(struct xdp_md *ctx, const struct packet *packet) {
    struct endpoint source = packet->source;
    struct hearing hearing = {};
    source.any_address = source.reserved = 0;
    if (bpf_map_lookup_elem(&acquaintances, &source)) {
        if (!read_hearing(ctx, packet, &hearing))
            bpf_map_update_elem(&acquaintances, &source, &hearing, BPF_EXIST);
        return XDP_PASS;
    }
    if (!is_over_budget(STRANGERS_BUDGET, packet->datagram_len))
        return XDP_PASS;
    count(NO_JOB, OVER_QUOTA, 0);
    return XDP_DROP;
}

#endif
