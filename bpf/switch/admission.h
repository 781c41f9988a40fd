/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Who may have values summed or forwarded here, and how neighbours come to be known. */
#ifndef WIRESUM_SWITCH_ADMISSION_H
#define WIRESUM_SWITCH_ADMISSION_H

#include "arrival.h"

/* Whether a job runs in this incarnation. As `carry_out`, this and the next are checked once each. */
__attribute__((noinline)) int is_running(__u32 job, __u32 key) {
    const struct running *jobs = pinned(table.jobs);
    for (__u32 i = 0; i < MAX_JOBS; i++)
        if (jobs[i].is_running && jobs[i].job == job && jobs[i].key == key)
            return 1;
    return 0;
}

/* Whether someone with this address, which is mapped into IPv6, is next to the switch. */
__attribute__((noinline)) int is_next_to_it(__u64 high, __u64 low, __u32 port) {
    struct endpoint source = {.address = {high, low}, .port = port};
    return bpf_map_lookup_elem(&acquaintances, &source) != 0;
}

static __always_inline int is_admitted(const struct packet *packet) {
    const struct wiresum_header *header = packet->header;
    const struct endpoint *source = &packet->source;
    return is_running(get16(&header->job), get32(&header->job_key)) &&
           is_next_to_it(source->address[0], source->address[1], source->port);
}

/* Notes how a neighbour was heard; its hello, or answer, goes to the station. */
static __always_inline int take_note(struct xdp_md *ctx, const struct packet *packet) {
    struct endpoint source = packet->source;
    struct hearing hearing = {};
    source.any_address = source.reserved = 0;
    if (bpf_map_lookup_elem(&acquaintances, &source) && !read_hearing(ctx, packet, &hearing))
        bpf_map_update_elem(&acquaintances, &source, &hearing, BPF_EXIST);
    return XDP_PASS;
}

#endif
