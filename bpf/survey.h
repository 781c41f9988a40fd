/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the daemon's transmitter wants to know of the slots. It never sees a packet: the daemon runs it
 * through the kernel's test-run, on a frame that is the question and becomes the answer. */
#ifndef WIRESUM_SURVEY_H
#define WIRESUM_SURVEY_H

#include "probe.h"

/* Bit i of the words: position first + i. */
struct survey_frame {
    __u64 job_key;
    __u32 stream;
    __u32 first;
    __u32 forwarded[WIRESUM_BITMAP_WORDS]; /* the sum has gone up, the result has not come down */
    __u32 finals[WIRESUM_BITMAP_WORDS];    /* the result is here */
};

static __always_inline int survey_group(struct xdp_md *ctx) {
    struct survey_frame *survey = (void *)(long)ctx->data;
    __u32 zero = 0;
    struct status_words *words = bpf_map_lookup_elem(&scratch, &zero);
    if ((void *)(survey + 1) > (void *)(long)ctx->data_end || !words)
        return XDP_ABORTED;
    for (__u32 word = 0; word < WIRESUM_BITMAP_WORDS; word++) {
        describe(survey->stream, survey->job_key, survey->first + word * POSITIONS_PER_WORD, 0);
        survey->forwarded[word] = words->complete & ~words->final;
        survey->finals[word] = words->final;
    }
    return XDP_PASS;
}

#endif
