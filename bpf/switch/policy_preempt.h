/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* `preempt` (ESA): as `hash`, but the more urgent fragment has the slot, and what it finds there leaves in
 * its stead. Who does not get a slot halves the urgency of the one who has it. */
#define EVICTS
#include "registers.h"

/* Where a key's cell holds the urgency. */
#define PRIORITY_SHIFT 48

static __always_inline __u32 slot_of(const struct arrival *arrival) { return chosen_slot(arrival); }

static __always_inline __u64 scale_of(const struct wiresum_header *header) {
    return (__u64)get32(&header->round) << 8 | (__u8)header->exponent;
}

/* The index in the table of the stream whose fragment a slot holds. */
static __always_inline __u32 owner_index(__u64 key) {
    __u32 number = (key & IDENTITY) >> 32;
    return (number - 1) % MAX_PLACES;
}

/* That stream, or NULL if it has just left. */
static __always_inline const struct place *owner_of(__u64 key) {
    __u32 index = owner_index(key);
    return table.keys[index] ? &table.places[index] : 0;
}

/* The first worker of that stream's cohort. */
static __always_inline __u8 first_worker_of(__u64 key) {
    return WIRESUM_COHORT_WORKERS * (table.keys[owner_index(key)] >> COHORT_SHIFT);
}

/* The packet takes the place of what the slot holds, and the other way round. */
static __always_inline void swap(struct arrival *arrival, struct registers *registers) {
    struct wiresum_header *header = arrival->packet.header;
    struct registers held = *registers;
    registers->contributors = arrival->contributors;
    registers->congestion = !!(arrival->flags & WIRESUM_FLAG_ECN);
    registers->scale = scale_of(header);
    registers->job_key = get64(&header->job_key);
    arrival->contributors = held.contributors;
    arrival->flags = (arrival->flags & WIRESUM_FLAG_LITTLE_ENDIAN) | (held.congestion ? WIRESUM_FLAG_ECN : 0);
    put32(&header->round, held.scale >> 8);
    header->exponent = held.scale;
    put64(&header->job_key, held.job_key);
}

/* The packet is the evicted fragment's from now on. */
static __always_inline void readdress(struct arrival *arrival, __u64 cell, const struct place *owner) {
    struct wiresum_header *header = arrival->packet.header;
    put16(&header->job, owner->job);
    put16(&header->sub_model, owner->sub_model);
    put32(&header->fragment, (__u32)cell);
    header->priority = cell >> PRIORITY_SHIFT;
    arrival->flags |= owner->lanes;
    arrival->worker = first_worker_of(cell) + lowest_bit(arrival->contributors);
    arrival->expected = 0;
    if (arrival->node != ANY_NODE && !owner->is_root)
        arrival->node = owner->parent;
}

static __always_inline struct fate evict(struct arrival *arrival, struct registers *registers,
                                         const struct place *owner) {
    __u64 cell = registers->key;
    registers->key = arrival->key | (__u64)arrival->priority << PRIORITY_SHIFT;
    swap(arrival, registers);
    readdress(arrival, cell, owner);
    struct fate fate = {.verdict = EVICTED, .egress = UP, .change = EXCHANGE};
    return fate;
}

static __always_inline struct fate be_refused(struct arrival *arrival, struct registers *registers) {
    __u64 urgency = (__u8)(registers->key >> PRIORITY_SHIFT);
    registers->key = (registers->key & IDENTITY) | (urgency / 2) << PRIORITY_SHIFT;
    return collide(arrival);
}

static __always_inline struct fate contribution(struct arrival *arrival, struct registers *registers) {
    if (arrival->flags & WIRESUM_FLAG_RETRANSMISSION)
        return release(arrival, registers);
    enum relation relation = relate(registers->key & IDENTITY, arrival->key, arrival->place->window);
    if (relation == NEWER || relation == OTHER) {
        const struct place *owner = owner_of(registers->key);
        if (owner)
            return arrival->priority > (__u8)(registers->key >> PRIORITY_SHIFT)
                       ? evict(arrival, registers, owner)
                       : be_refused(arrival, registers);
    }
    if (relation != SAME) {
        registers->key = arrival->key | (__u64)arrival->priority << PRIORITY_SHIFT;
        registers->scale = scale_of(arrival->packet.header);
        registers->job_key = get64(&arrival->packet.header->job_key);
    }
    return add(arrival, registers, relation != SAME);
}

static __always_inline struct fate result(struct arrival *arrival, struct registers *registers) {
    return free_by_result(arrival, registers);
}
