/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What policies share: a slot's registers, taking, merging, forcing out, freeing. A policy works on a copy of
 * the registers, as the packet may turn out to be damaged only while its values are added. */
#ifndef WIRESUM_SWITCH_REGISTERS_H
#define WIRESUM_SWITCH_REGISTERS_H

#include "../bits.h"
#include "arrival.h"

#define NO_SLOT 0xffffffff
/* Bits of a key that identify the fragment; the rest is the policy's. */
#define IDENTITY ((1ULL << 48) - 1)

struct registers {
    __u64 key;
    __u64 contributors;
    __u64 shadow_key;
    __u64 scale;
    __u64 job_key;
    __u32 count;
    __u8 congestion;
    __u8 is_final;
};

/* What is done with the slot's values. */
enum change { LEAVE, TAKE, SUM_UP, EXCHANGE };

/* The values that the packet leaves with. */
enum leaving { WITH_ITS_OWN, WITH_THE_SUM, WITH_THE_SHADOW, WITH_NONE };

/* What becomes of a packet and of a slot's values. */
struct fate {
    __u32 verdict;
    __u32 egress;
    __u32 change;
    __u32 leaving;
    __u32 keeps; /* under `segment`: the sum becomes the shadow */
};

static __always_inline struct fate as_it_is(enum verdict verdict, enum egress egress) {
    struct fate fate = {.verdict = verdict, .egress = egress};
    return fate;
}

static __always_inline struct fate absorb(enum verdict verdict) { return as_it_is(verdict, ABSORBED); }

/* Up, unsummed. */
static __always_inline struct fate collide(struct arrival *arrival) {
    arrival->flags |= WIRESUM_FLAG_COLLISION;
    return as_it_is(COLLISION, UP);
}

/* What a slot's key says to an arriving fragment. */
enum relation { FREE, SAME, FINISHED, NEWER, OTHER };

static __always_inline enum relation relate(__u64 held, __u64 arriving, __u32 window) {
    __s32 ahead = (__u32)arriving - (__u32)held;
    if (held == arriving)
        return SAME;
    if (held >> 32 != arriving >> 32)
        return held ? OTHER : FREE;
    if (ahead < 0)
        return NEWER;
    return (__u32)ahead >= window ? FINISHED : OTHER;
}

/* Takes a slot that is free, or whose fragment is finished. */
static __always_inline enum relation take(__u64 *cell, __u64 key, __u32 window) {
    enum relation relation = relate(*cell & IDENTITY, key, window);
    if (relation == FREE || relation == FINISHED)
        *cell = key;
    return relation;
}

/* Frees the slot if it holds this fragment. */
static __always_inline int free_slot(__u64 *cell, __u64 key) {
    int is_ours = (*cell & IDENTITY) == key;
    if (is_ours)
        *cell = 0;
    return is_ours;
}

/* What adding a packet to a slot comes to. */
enum merge { MERGE_FIRST, MERGE_ADDED, MERGE_DUPLICATE, MERGE_OVERLAP };

/* Enters contributors into a cell, which counts as empty if they are the first. */
static __always_inline enum merge enter(__u64 *held, __u64 arriving, int is_first) {
    __u64 before = is_first ? 0 : *held;
    if (!(before & arriving)) {
        *held = before | arriving;
        return is_first ? MERGE_FIRST : MERGE_ADDED;
    }
    return arriving & ~before ? MERGE_OVERLAP : MERGE_DUPLICATE;
}

/* What a merge means for the values. */
static __always_inline enum change change_of(enum merge merge) {
    return merge == MERGE_FIRST ? TAKE : merge == MERGE_ADDED ? SUM_UP : LEAVE;
}

/* Congestion that one contribution met is told by the sum. */
static __always_inline void stick(struct arrival *arrival, struct registers *registers, int is_first) {
    __u8 is_marked = !!(arrival->flags & WIRESUM_FLAG_ECN);
    registers->congestion = is_marked | (is_first ? 0 : registers->congestion);
    if (registers->congestion)
        arrival->flags |= WIRESUM_FLAG_ECN;
}

/* The slot that the sender chose, if the stream may use it. */
static __always_inline __u32 chosen_slot(const struct arrival *arrival) {
    const struct place *place = arrival->place;
    __u32 slot = arrival->slot;
    return slot >= place->base && slot - place->base < place->slots ? slot : NO_SLOT;
}

/* Adds the packet to the slot that holds its fragment, or that it took. A complete sum goes up. */
static __always_inline struct fate add(struct arrival *arrival, struct registers *registers, int is_first) {
    enum merge merge = enter(&registers->contributors, arrival->contributors, is_first);
    if (merge == MERGE_DUPLICATE)
        return absorb(DUPLICATE);
    if (merge == MERGE_OVERLAP)
        return as_it_is(OVERLAP, UP);
    stick(arrival, registers, is_first);
    struct fate fate = {.verdict = is_first ? FIRST : ADDED, .change = change_of(merge)};
    if (registers->contributors == arrival->place->members) {
        fate.verdict = FORWARDED;
        fate.egress = UP;
        fate.leaving = WITH_THE_SUM;
        arrival->contributors = registers->contributors;
    }
    return fate;
}

/* A packet that is sent again frees its fragment's slot and takes along what that has; without one it goes
 * past. */
static __always_inline struct fate release(struct arrival *arrival, struct registers *registers) {
    if (!free_slot(&registers->key, arrival->key))
        return as_it_is(BYPASSED, UP);
    enum merge merge = enter(&registers->contributors, arrival->contributors, 0);
    if (merge == MERGE_OVERLAP)
        return as_it_is(OVERLAP, UP);
    stick(arrival, registers, 0);
    arrival->contributors = registers->contributors;
    struct fate fate = {
        .verdict = RELEASED, .egress = UP, .change = change_of(merge), .leaving = WITH_THE_SUM};
    return fate;
}

/* Turns the packet into a result for `recipients`. */
static __always_inline void turn_down(struct arrival *arrival, __u64 recipients, __u8 summed) {
    arrival->kind = WIRESUM_KIND_RESULT;
    arrival->contributors = recipients;
    arrival->expected = summed;
    arrival->flags &= WIRESUM_FLAG_FORMAT | WIRESUM_FLAG_ECN;
}

/* Results that change nothing. */
static __always_inline struct fate pass_result(void) { return as_it_is(PASSED, DOWN); }

/* The result passes back, and frees the slot of its fragment. */
static __always_inline struct fate free_by_result(const struct arrival *arrival,
                                                  struct registers *registers) {
    return as_it_is(free_slot(&registers->key, arrival->key) ? FREED : PASSED, DOWN);
}

#endif
