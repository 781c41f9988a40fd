/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Contributions from children and results from the parent: the tables of spec/aggregation.md about entries.
 */
#ifndef WIRESUM_CONTRIBUTION_H
#define WIRESUM_CONTRIBUTION_H

#include "authentic.h"
#include "bits.h"
#include "deposit.h"
#include "gate.h"
#include "lock.h"

/* An entry and a packet for it. */
struct deposit {
    struct entry *entry;
    struct lanes lanes;
    __u32 index; /* of the entry */
    __u32 frame_len;
    __u32 promised; /* sum of lanes, by the packet's check */
    __u32 position;
    __u32 round;
    __u64 job_key;
    __u64 held_by; /* the sender's bit, and its child's: either says that its values are in */
    __u16 value_count;
    __s8 exponent;
    __u8 exchange;
    __u8 giver; /* of a copy */
};

static __always_inline int find_entry(const struct arrival *arrival, struct deposit *deposit) {
    const struct wiresum_header *header = arrival->packet.header;
    deposit->position = get32(&header->fragment);
    __u32 index = arrival->stream->first_entry + (deposit->position & arrival->stream->entry_mask);
    deposit->index = index;
    deposit->frame_len = arrival->packet.frame_len;
    deposit->entry = bpf_map_lookup_elem(&entries, &index);
    deposit->lanes.total = bpf_map_lookup_elem(&values, &index);
    if (!deposit->entry || !deposit->lanes.total)
        return -1;
    deposit->lanes.payload = arrival->packet.payload;
    deposit->lanes.end = arrival->packet.end;
    deposit->lanes.zero = arrival->packet.zero;
    deposit->promised = promised_sum(arrival);
    deposit->lanes.format = arrival->packet.flags & WIRESUM_FLAG_FORMAT;
    deposit->round = get32(&header->round);
    deposit->job_key = arrival->job_key;
    deposit->held_by = contributor_bit(arrival) | arrival->sender->child;
    deposit->value_count = get16(&header->value_count);
    deposit->exponent = header->exponent;
    deposit->exchange = header->priority;
    return 0;
}

/* Hides which verdict it is from the verifier. */
static __always_inline enum verdict hide_verdict(enum verdict verdict, const struct deposit *deposit) {
    return hide(verdict, deposit->lanes.zero) % VERDICT_RANGE;
}

static __always_inline int agrees(const struct entry *entry, const struct deposit *deposit) {
    return entry->round == deposit->round && entry->exponent == deposit->exponent &&
           entry->exchange == deposit->exchange && entry->format == deposit->lanes.format &&
           entry->value_count == deposit->value_count;
}

/* The verdict on a contribution whose check matches, before it is known whether it is the last. */
static __always_inline enum verdict judge(const struct entry *entry, const struct deposit *deposit,
                                          const struct arrival *arrival) {
    const struct peer *sender = arrival->sender;
    __s32 distance = deposit->position - entry->position;
    if (deposit->exchange && (!arrival->stream->is_root || arrival->stream->is_proven))
        return MISMATCH;
    if ((arrival->packet.flags & WIRESUM_FLAG_REQUEST) &&
        (entry->state != WIRESUM_ENTRY_STATE_FINAL || entry->job_key != deposit->job_key || distance))
        return STALE;
    if (entry->state == WIRESUM_ENTRY_STATE_EMPTY || entry->job_key != deposit->job_key || distance > 0)
        return FIRST;
    if (distance < 0)
        return STALE;
    if (!agrees(entry, deposit))
        return MISMATCH;
    if (entry->state == WIRESUM_ENTRY_STATE_FINAL)
        return ANSWERED;
    if (entry->state == WIRESUM_ENTRY_STATE_FORWARDED)
        return REFORWARDED;
    if (entry->contributors & deposit->held_by)
        return DUPLICATE;
    return entry->contributors & sender->rivals ? SUBSTITUTED : ADDED;
}

static __always_inline void occupy(const struct deposit *deposit) {
    struct entry *entry = deposit->entry;
    entry->contributors = 0;
    entry->job_key = deposit->job_key;
    entry->position = deposit->position;
    entry->round = deposit->round;
    entry->value_count = deposit->value_count;
    entry->format = deposit->lanes.format;
    entry->exponent = deposit->exponent;
    entry->exchange = deposit->exchange;
    entry->state = WIRESUM_ENTRY_STATE_FILLING;
    entry->lane_sum = deposit->promised;
}

static __always_inline int is_sound(struct xdp_md *ctx, const struct deposit *deposit, int takes) {
    return verify(ctx, deposit->index, deposit->frame_len, deposit->promised, takes);
}

/* Adds while it sums what it adds, and takes it back if that is not what the check promises. */
static __always_inline enum verdict add(struct xdp_md *ctx, const struct deposit *deposit) {
    if (combine(&deposit->lanes, ADD) == deposit->promised) {
        deposit->entry->lane_sum += deposit->promised;
        return ADDED;
    }
    take_back(ctx, deposit->index, deposit->frame_len);
    return DAMAGED;
}

/* Does what the verdict says about the values, or finds them damaged. */
static __always_inline enum verdict apply(struct xdp_md *ctx, const struct deposit *deposit,
                                          enum verdict verdict) {
    if (verdict == ADDED && !(deposit->lanes.format & WIRESUM_FLAG_MAXIMUM))
        return add(ctx, deposit);
    /* A maximum cannot be taken back, and a first contribution would overwrite what its position may be wrong
     * about. */
    if (verdict == FIRST) {
        if (sum(&deposit->lanes) != deposit->promised)
            return DAMAGED;
        occupy(deposit);
        take(&deposit->lanes);
        return FIRST;
    }
    if (!is_sound(ctx, deposit, 0))
        return DAMAGED;
    if (verdict == ADDED)
        deposit->entry->lane_sum = maximize(ctx, deposit->index, deposit->frame_len);
    return verdict;
}

/* The children that have to be in for a fragment to be complete, one of whom is. */
static __always_inline __u64 awaited(const struct stream *stream, __u8 exchange) {
    __u32 taker = exchange & WIRESUM_EXCHANGE_TAKER;
    if (exchange & WIRESUM_EXCHANGE_COPY)
        return 0;
    if (!taker || taker > WIRESUM_MAX_CONTRIBUTORS)
        return stream->expected;
    return stream->expected & ~(1ULL << (taker - 1));
}

/* Sets the bit, and the child's where the last of its substitutes has come; the last child ends the filling.
 */
static __always_inline enum verdict note(struct deposit *deposit, const struct arrival *arrival,
                                         enum verdict verdict) {
    struct entry *entry = deposit->entry;
    const struct stream *stream = arrival->stream;
    const struct peer *sender = arrival->sender;
    entry->contributors |= contributor_bit(arrival);
    if ((entry->contributors & sender->team) == sender->team)
        entry->contributors |= sender->child;
    __u64 needed = awaited(stream, deposit->exchange);
    if ((entry->contributors & needed) != needed)
        return verdict;
    entry->state = stream->is_root ? WIRESUM_ENTRY_STATE_FINAL : WIRESUM_ENTRY_STATE_FORWARDED;
    return stream->is_root ? COMPLETED : FORWARDED;
}

static __always_inline int sends_the_entry(enum verdict verdict) {
    return verdict == COMPLETED || verdict == FORWARDED || verdict == ANSWERED || verdict == REFORWARDED;
}

/* Turns the contribution into the packet that carries what the entry holds. */
static __always_inline void rewrite_header(const struct arrival *arrival, const struct deposit *deposit,
                                           enum verdict verdict, __u32 lane_sum) {
    struct wiresum_header *header = arrival->packet.header;
    const struct stream *stream = arrival->stream;
    int upward = verdict == FORWARDED || verdict == REFORWARDED;
    int again = verdict == ANSWERED || verdict == REFORWARDED;
    __u16 proven = arrival->packet.flags & WIRESUM_FLAG_PROVEN;
    put16(&header->flags, deposit->lanes.format | proven | (again ? WIRESUM_FLAG_RETRANSMISSION : 0));
    header->kind = upward ? WIRESUM_KIND_CONTRIBUTION : WIRESUM_KIND_RESULT;
    put16(&header->node, upward ? stream->parent_node : stream->node);
    header->expected = upward ? stream->parent_children : stream->child_count;
    if (upward)
        header->contributor = stream->own_index;
    else if (verdict == COMPLETED && arrival->taker)
        header->contributor = arrival->taker - 1;
    if (deposit->exchange & WIRESUM_EXCHANGE_COPY)
        header->expected = deposit->giver;
    seal(header, deposit->lanes.format & NARROW_LANES ? lane_sum & 0xffff : lane_sum);
}

/* Notes on the check queue that a sum has gone up or a result has come down, where an interval ends, or when
 * the daemon waits for anything to move. */
static __always_inline void note_check(const struct arrival *arrival, __u32 position) {
    __u32 stream = arrival->stream_index, *is_armed = bpf_map_lookup_elem(&armed, &stream);
    __u32 rest = (1U << (arrival->stream->check_shift % 32)) - 1;
    if (!is_armed || (!*is_armed && (position & rest) != rest))
        return;
    *is_armed = 0;
    submit_check(stream, position);
}

static __always_inline enum verdict contribute(struct xdp_md *ctx, struct arrival *arrival) {
    struct deposit deposit;
    if (!is_of_ours(arrival, 0))
        return FOREIGN;
    if (!comes_from_child(arrival))
        return BAD_CONTRIBUTOR;
    if (exceeds_quota(arrival))
        return OVER_QUOTA;
    if (!is_authentic(ctx, arrival, 0))
        return FORGED;
    if (find_entry(arrival, &deposit))
        return MALFORMED;
    if (lock(&deposit.entry->lock))
        return CONTENDED;
    enum verdict verdict = hide_verdict(judge(deposit.entry, &deposit, arrival), &deposit);
    verdict = hide_verdict(apply(ctx, &deposit, verdict), &deposit);
    if (verdict == FIRST || verdict == ADDED)
        verdict = hide_verdict(note(&deposit, arrival, verdict), &deposit);
    if (sends_the_entry(verdict))
        give_payload(deposit.lanes.payload, deposit.lanes.end, deposit.lanes.total, deposit.lanes.zero);
    __u32 lane_sum = deposit.entry->lane_sum;
    deposit.giver = deposit.exchange & WIRESUM_EXCHANGE_COPY ? lowest_bit(deposit.entry->contributors) : 0;
    unlock(&deposit.entry->lock);
    arrival->taker = deposit.exchange & WIRESUM_EXCHANGE_TAKER;
    if (sends_the_entry(verdict)) {
        rewrite_header(arrival, &deposit, verdict, lane_sum);
        prove_values(ctx, arrival, verdict);
    }
    if (verdict == FORWARDED)
        note_check(arrival, deposit.position);
    return verdict;
}

/* The verdict on a result whose check matches. */
static __always_inline enum verdict judge_result(const struct entry *entry, const struct deposit *deposit) {
    if (entry->state == WIRESUM_ENTRY_STATE_EMPTY || entry->job_key != deposit->job_key ||
        entry->position != deposit->position)
        return RESULT_STALE;
    if (!agrees(entry, deposit))
        return MISMATCH;
    if (entry->state == WIRESUM_ENTRY_STATE_FORWARDED)
        return RESULT_STORED;
    return entry->state == WIRESUM_ENTRY_STATE_FINAL ? RESULT_DUPLICATE : RESULT_STALE;
}

static __always_inline enum verdict store_result(struct xdp_md *ctx, struct arrival *arrival) {
    struct deposit deposit;
    if (!is_of_ours(arrival, 1))
        return FOREIGN;
    if (!comes_from_parent(arrival))
        return BAD_CONTRIBUTOR;
    if (!is_authentic(ctx, arrival, 1))
        return FORGED;
    if (find_entry(arrival, &deposit))
        return MALFORMED;
    if (lock(&deposit.entry->lock))
        return CONTENDED;
    enum verdict verdict = judge_result(deposit.entry, &deposit);
    if (!is_sound(ctx, &deposit, verdict == RESULT_STORED))
        verdict = DAMAGED;
    if (verdict == RESULT_STORED) {
        deposit.entry->lane_sum = deposit.promised;
        deposit.entry->state = WIRESUM_ENTRY_STATE_FINAL;
    }
    unlock(&deposit.entry->lock);
    if (verdict == RESULT_STORED) {
        rewrite_header(arrival, &deposit, COMPLETED, deposit.promised);
        prove_values(ctx, arrival, COMPLETED);
        note_check(arrival, deposit.position);
    }
    return verdict;
}

#endif
