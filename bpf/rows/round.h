/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Rounds of a stream of hot rows: which packets have come, how many there are, when all are in. The station
 * runs `open_round` and `announce` through the kernel's test-run, on a frame that is the order. */
#ifndef WIRESUM_ROWS_ROUND_H
#define WIRESUM_ROWS_ROUND_H

#include "../lock.h"
#include "maps.h"

#define NUMBERS_PER_WORD 32
/* Contributors of one stream, as a loop's bound. */
#define MAX_CONTRIBUTORS WIRESUM_MAX_CONTRIBUTORS

/* A contributor's packets of the open round. */
static __always_inline struct reception *find_reception(const struct hot_stream *stream, __u32 index,
                                                        __u32 contributor) {
    __u32 place = index * MAX_CONTRIBUTORS + contributor;
    struct reception *reception = bpf_map_lookup_elem(&receptions, &place);
    if (reception && reception->generation != stream->generation) {
        struct reception none = {.generation = stream->generation, .announced = NOT_ANNOUNCED};
        *reception = none;
    }
    return reception;
}

/* The word for a packet's number; NULL if there can be no such packet. */
static __always_inline struct numbers *find_numbers(const struct hot_stream *stream, __u32 contributor,
                                                    __u32 number) {
    __u32 word = number / NUMBERS_PER_WORD, place = stream->first_word + contributor * stream->words + word;
    struct numbers *found = word < stream->words ? bpf_map_lookup_elem(&numbers, &place) : 0;
    if (found && found->generation != stream->generation) {
        found->generation = stream->generation;
        found->seen = 0;
    }
    return found;
}

/* Whether the round has just become complete: the last packet of the last contributor is in. */
static __always_inline int completes(struct hot_stream *stream, const struct reception *reception,
                                     __u32 contributor) {
    __u64 before = stream->unfinished;
    if (reception->count == reception->announced)
        stream->unfinished &= ~(1ULL << (contributor % MAX_CONTRIBUTORS));
    return before && !stream->unfinished;
}

/* A round begins. */
struct opening {
    __u32 stream;
    __u32 job_key;
    __u32 round;
    __u32 generation;
    __u32 map_version;
    __u32 reserved;
    __u64 contributors;
};

static __always_inline int open_stream(struct xdp_md *ctx) {
    struct opening *opening = (void *)(long)ctx->data;
    if ((void *)(opening + 1) > (void *)(long)ctx->data_end)
        return CONTENDED;
    __u32 index = opening->stream;
    struct hot_stream *stream = bpf_map_lookup_elem(&hot_streams, &index);
    if (!stream || lock(&stream->lock))
        return CONTENDED;
    stream->job_key = opening->job_key;
    stream->round = opening->round;
    stream->generation = opening->generation;
    stream->map_version = opening->map_version;
    stream->unfinished = opening->contributors;
    unlock(&stream->lock);
    return CONTROL;
}

/* A contributor's end of the round says how many packets there were. */
struct announcement {
    __u32 stream;
    __u32 contributor;
    __u32 job_key;
    __u32 round;
    __u32 map_version;
    __u32 packets;
    __u32 is_complete; /* the answer: with this, the round has become complete */
    __u32 reserved;
};

static __always_inline enum verdict announce_to(struct hot_stream *stream, struct announcement *end) {
    struct reception *reception = find_reception(stream, end->stream, end->contributor);
    if (!reception || end->job_key != stream->job_key)
        return FOREIGN;
    if (end->round != stream->round)
        return end->round < stream->round ? STALE : EARLY;
    if (end->map_version > stream->map_version)
        return EARLY;
    if (end->packets > NUMBERS_PER_WORD * stream->words)
        return WRONG;
    if (reception->announced == end->packets)
        return DUPLICATE;
    if (reception->announced != NOT_ANNOUNCED || end->packets < reception->least)
        return WRONG;
    reception->announced = end->packets;
    end->is_complete = completes(stream, reception, end->contributor);
    return CONTROL;
}

static __always_inline int announce_packets(struct xdp_md *ctx) {
    struct announcement *end = (void *)(long)ctx->data;
    if ((void *)(end + 1) > (void *)(long)ctx->data_end)
        return CONTENDED;
    struct announcement copy = *end;
    struct hot_stream *stream = bpf_map_lookup_elem(&hot_streams, &copy.stream);
    if (!stream || copy.contributor >= MAX_CONTRIBUTORS || lock(&stream->lock))
        return CONTENDED;
    enum verdict verdict = announce_to(stream, &copy);
    unlock(&stream->lock);
    *end = copy;
    return verdict;
}

#endif
