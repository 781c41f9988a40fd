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

/* The place of the lowest bit that is set, without a branch: a product that has another beginning for each
 * place (Leiserson, Prokop and Randall, 1998). */
static const __u8 places[NUMBERS_PER_WORD] = {0,  1,  28, 2,  29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4,  8,
                                              31, 27, 13, 23, 21, 19, 16, 7, 26, 12, 18, 6,  11, 5,  10, 9};

static __always_inline __u32 lowest_place(__u32 word) { return places[(word & -word) * 0x077cb531U >> 27]; }

/* Words that are looked at for packets that came before those in front of them: each packet that comes later
 * looks on from there. */
#define WORDS_AHEAD 2

/* Enters a packet whose rows end before the position `end`. Senders' rows ascend from packet to packet, so
 * with all packets up to this one, no row before its end is to come. Behind a gap that is filled, ends are
 * not known any more: the next packet tells. */
static __always_inline void note_number(const struct hot_stream *stream, struct reception *reception,
                                        struct numbers *word, __u32 contributor, __u32 number, __u32 end) {
    word->seen |= 1U << (number % NUMBERS_PER_WORD);
    reception->count++;
    if (reception->least <= number)
        reception->least = number + 1;
    /* An exchange, as in ../lock.h: the station reads sums once it has seen this, or that the round is
     * complete. */
    __sync_lock_test_and_set(&reception->reached, number == reception->next ? end : reception->reached);
    for (int ahead = 0; ahead < WORDS_AHEAD; ahead++) {
        __u32 place = reception->next % NUMBERS_PER_WORD;
        struct numbers *next = find_numbers(stream, contributor, reception->next);
        __u32 missing = next ? ~next->seen >> place : 1;
        reception->next += missing ? lowest_place(missing) : NUMBERS_PER_WORD - place;
        if (missing)
            break;
    }
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
    __u64 job_key;
    __u64 contributors;
    __u32 stream;
    __u32 round;
    __u32 generation;
    __u32 map_version;
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
    stream->left = 0;
    unlock(&stream->lock);
    return CONTROL;
}

/* A contributor's end of the round says how many packets there were. */
struct announcement {
    __u64 job_key;
    __u32 stream;
    __u32 contributor;
    __u32 round;
    __u32 map_version;
    __u32 packets;
    __u32 is_complete; /* the answer: with this, the round has become complete */
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
