/* The interface between the PyTorch backend (C++) and the engine (Rust): plain C, so that neither needs the
 * other's headers. `wiresum._native.Engine.abi()` returns a capsule named WIRESUM_ENGINE_CAPSULE that points
 * to a `wiresum_engine_abi`; it lives as long as the engine object. */
#ifndef WIRESUM_ENGINE_ABI_H
#define WIRESUM_ENGINE_ABI_H

#include <stdint.h>

#define WIRESUM_ENGINE_ABI_VERSION 2
#define WIRESUM_ENGINE_CAPSULE "wiresum._native.engine_abi"

enum wiresum_element_type { WIRESUM_FLOAT32 = 0, WIRESUM_FLOAT16 = 1, WIRESUM_BFLOAT16 = 2 };
enum wiresum_operation { WIRESUM_SUM = 0, WIRESUM_AVERAGE = 1 };

/* How a collective ended. */
enum wiresum_outcome {
    WIRESUM_OK = 0, /* the buffer holds the sum on every rank */
    WIRESUM_NOT_FINITE =
        1, /* the buffer is untouched on every rank, which all get this outcome for the same collective */
    WIRESUM_MISMATCH = 2,   /* ranks passed different tensors */
    WIRESUM_TIMED_OUT = 3,  /* the message names who did not deliver */
    WIRESUM_FAILED = 4,     /* anything else */
    WIRESUM_UNFORESEEN = 5, /* as WIRESUM_NOT_FINITE: exponents were not those expected */
    WIRESUM_MISSED = 6      /* as WIRESUM_OK, but without this rank's elements, which were late */
};

/* Called once for each submitted collective, in order of submission, from the engine's thread and without
 * Python's lock. It must not block. `message` is UTF-8, empty on success, valid during the call only. */
typedef void (*wiresum_done)(void *context, int32_t outcome, const char *message);

struct wiresum_collective {
    void *data;            /* contiguous elements, summed in place; valid until `done` */
    uint64_t elements;     /* at least 1 */
    uint32_t element_type; /* enum wiresum_element_type */
    uint32_t operation;    /* enum wiresum_operation */
    uint64_t timeout_us;   /* from submission to the end of the collective */
    wiresum_done done;
    void *context;
};

struct wiresum_engine_abi {
    uint32_t version; /* WIRESUM_ENGINE_ABI_VERSION */
    void *engine;
    /* Queues a collective; returns at once. 0, or non-zero if the engine is closed (then `done` is not
     * called). May be called from any thread. */
    int32_t (*submit)(void *engine, const struct wiresum_collective *collective);
};

#endif
