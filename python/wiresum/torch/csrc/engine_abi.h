/* The interface between the PyTorch backend (C++) and the engine (Rust): plain C, so that neither needs the
 * other's headers. `wiresum._native.Engine.abi()` returns a capsule named WIRESUM_ENGINE_CAPSULE that points
 * to a `wiresum_engine_abi`; it lives as long as the engine object. */
#ifndef WIRESUM_ENGINE_ABI_H
#define WIRESUM_ENGINE_ABI_H

#include <stdint.h>

#define WIRESUM_ENGINE_ABI_VERSION 10
#define WIRESUM_ENGINE_CAPSULE "wiresum._native.engine_abi"

/* Who takes which of the results, of a collective of N elements and n ranks: its part. Those from all-gather
 * on copy bytes and sum nothing. A plan has streams for all that copy, or for none of them. Barriers and
 * small ones are shares: bytes in the packets that open a collective, which may end before earlier ones.
 * Small ones give every rank n*N bytes, those of rank r from r*N on, its own too; what becomes of them is the
 * caller's. */
enum wiresum_kind {
    WIRESUM_ALL_REDUCE = 0,     /* every rank: all */
    WIRESUM_REDUCE = 1,         /* the root: all; the others: nothing */
    WIRESUM_REDUCE_SCATTER = 2, /* rank r: elements r*N/n to (r+1)*N/n, both rounded down */
    WIRESUM_ALL_GATHER = 3, /* every rank: n*N bytes, those of rank r from r*N on; its own stay unwritten */
    WIRESUM_BROADCAST = 4,  /* the root: nothing; the others: its bytes */
    WIRESUM_BARRIER = 5,    /* every rank: nothing, when all have come; N is 0 */
    WIRESUM_SMALL_ALL_REDUCE = 6,
    WIRESUM_SMALL_REDUCE = 7,
    WIRESUM_SMALL_REDUCE_SCATTER = 8,
    WIRESUM_SMALL_ALL_GATHER = 9,
    WIRESUM_SMALL_BROADCAST = 10,
    WIRESUM_SMALL_GATHER = 11,
    WIRESUM_SMALL_SCATTER = 12, /* whoever is not the root passes N zeros */
    WIRESUM_GATHER = 13,        /* the root: n*N bytes, as of an all-gather; the others: nothing */
    WIRESUM_SCATTER = 14        /* rank r: bytes r*N/n to (r+1)*N/n of the root's N; the root: nothing */
};
/* Integers are summed modulo 2 to the number of their bits. They, and extremes, are for all-reduces whose
 * elements have at most `exact_bytes`; there are no averages of integers. */
enum wiresum_element_type {
    WIRESUM_FLOAT32 = 0,
    WIRESUM_FLOAT16 = 1,
    WIRESUM_BFLOAT16 = 2,
    WIRESUM_INT32 = 3,
    WIRESUM_INT8 = 4,
    WIRESUM_UINT8 = 5
};
enum wiresum_operation { WIRESUM_SUM = 0, WIRESUM_AVERAGE = 1, WIRESUM_MINIMUM = 2, WIRESUM_MAXIMUM = 3 };

/* How a collective ended. */
enum wiresum_outcome {
    WIRESUM_OK = 0, /* the sink holds this rank's part of the results */
    WIRESUM_NOT_FINITE =
        1, /* the sink is untouched on every rank, which all get this outcome for the same collective */
    WIRESUM_MISMATCH = 2,   /* ranks passed different collectives */
    WIRESUM_TIMED_OUT = 3,  /* the message names who did not deliver */
    WIRESUM_FAILED = 4,     /* anything else */
    WIRESUM_UNFORESEEN = 5, /* as WIRESUM_NOT_FINITE: exponents were not those expected */
    WIRESUM_MISSED = 6,     /* as WIRESUM_OK, but without this rank's elements, which were late */
    WIRESUM_NOT_SERVED = 7, /* the network serves the job no more, and all later ones end so too: the source
                             * is as it was if it has no byte in common with the sink, or is kept aside, or
                             * nothing was sent before. Other ranks may have the results of this
                             * collective */
    WIRESUM_WORKER_LOST =
        8 /* a rank, which the message names, is dead or was stopped; all later ones end so too */
};

/* Called once for each submitted collective, in order of submission (but for shares), one at a time, from an
 * engine's thread and without Python's lock. It must not block. `message` is UTF-8, empty on success, valid
 * during the call only. */
typedef void (*wiresum_done)(void *context, int32_t outcome, const char *message);

/* Source and sink are contiguous and valid until `done`. The sink is either the part's own place in the
 * source (a failure may then leave some results among the elements), or has no byte in common with the
 * source, which then stays as it is however the collective ends. Of an all-gather or a gather the source may
 * be this rank's own place in the sink. Of a scatter the root alone has a source. */
struct wiresum_collective {
    uint32_t kind;         /* enum wiresum_kind */
    uint32_t root;         /* rank of the root, where the kind has one; otherwise 0 */
    const void *source;    /* elements to be summed with those of the other ranks, or bytes to be copied */
    void *sink;            /* where this rank's part of the results goes; unused where it takes nothing */
    uint64_t elements;     /* of the source, at least 1 but in shares; bytes where they are copied */
    uint32_t element_type; /* enum wiresum_element_type; not looked at where bytes are copied; in shares a
                            * number below 16 that ranks have to pass alike */
    uint32_t operation;    /* enum wiresum_operation; likewise */
    uint64_t timeout_us;   /* from submission to the end of the collective */
    uint32_t bits;         /* of the numbers that elements become: 8, of an all-reduce or a reduce where the
                            * engine packs; 0 for what the plan says */
    uint32_t seed;         /* decides which way numbers of 8 bits are rounded, where nothing is kept */
    float *kept; /* where what numbers of 8 bits leave of each element is written, as many as there are
                  * elements; null if nothing is kept. Valid until `done` */
    void *aside; /* room for as many elements as the source has, where the engine keeps those that this rank
                  * gives: all of them, once the collective has ended well. If it fails, the source is as it
                  * was, even where results take its place, and those of them that have come are here, each in
                  * its place. Not of a share; null if nothing is kept. Valid until `done` */
    wiresum_done done;
    void *context;
};

/* Some of a collective's elements: those from `start` to `end`, which is not one of them. */
struct wiresum_span {
    uint64_t start;
    uint64_t end;
};

struct wiresum_engine_abi {
    uint32_t version; /* WIRESUM_ENGINE_ABI_VERSION */
    void *engine;
    /* Queues a collective; returns at once. 0; 1 if the engine is closed, 2 if the collective is
     * ill-formed (then `done` is not called). May be called from any thread. */
    int32_t (*submit)(void *engine, const struct wiresum_collective *collective);
    int64_t largest_share; /* most bytes of a rank's share; -1 where the engine takes none */
    uint32_t packs;        /* whether elements may become numbers of 8 bits: 1 if so, else 0 */
    uint32_t exact_bytes;  /* of the widest element that is all-reduced without rounding; 0 if none is */
    /* Which results of an all-reduce a rank may lack that is not as far as another one; the same on every
     * rank. Returns their number, and writes at most `room` of them. Null if any may be missing. */
    uint64_t (*tail)(void *engine, uint64_t elements, uint32_t element_type, uint32_t bits,
                     struct wiresum_span *spans, uint64_t room);
};

#endif
