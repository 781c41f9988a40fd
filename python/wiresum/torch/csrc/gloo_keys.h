/* Keys of the messages that ranks send each other by Gloo: the interface between the PyTorch backend (C++)
 * and `crates/python/src/gloo.rs`. `wiresum._native.GlooKeys.abi()` returns a capsule named
 * WIRESUM_GLOO_KEYS_CAPSULE that points to a `wiresum_gloo_keys`. It lives as long as the capsule. */
#ifndef WIRESUM_GLOO_KEYS_H
#define WIRESUM_GLOO_KEYS_H

#include <stdint.h>

#define WIRESUM_GLOO_KEYS_VERSION 1
#define WIRESUM_GLOO_KEYS_CAPSULE "wiresum._native.gloo_keys"
#define WIRESUM_SALT_BYTES 32
#define WIRESUM_TAG_BYTES 16

/* One message. A sender never seals two messages for the same receiver with the same number and part. */
struct wiresum_message {
    uint64_t number;       /* of the collective, or of the message */
    uint32_t part;         /* of the collective */
    uint32_t peer;         /* the receiver to seal for, or the sender to open from */
    uint32_t is_for_all;   /* 1 if every other rank can open it, else 0 */
    uint32_t header_bytes; /* authenticated, and in the clear */
    const uint8_t *header;
    uint8_t *plain;
    uint8_t *cipher; /* WIRESUM_TAG_BYTES more than `bytes`; no byte in common with `plain` */
    uint64_t bytes;
};

struct wiresum_gloo_keys {
    uint32_t version; /* WIRESUM_GLOO_KEYS_VERSION */
    uint32_t rank;
    const void *keys;
    const uint8_t *salt; /* this rank's contribution: WIRESUM_SALT_BYTES random bytes */
    /* Derives the keys from the salts of all ranks, in their order. Once. All three return 0, or 1 on
     * failure. */
    int32_t (*agree)(const void *keys, const uint8_t *salts);
    /* Encrypts. May be called from any thread after `agree`, as `open`. */
    int32_t (*seal)(const void *keys, const struct wiresum_message *message);
    /* Decrypts; fails if the message is not the one that the sender sealed with this number, part and header.
     */
    int32_t (*open)(const void *keys, const struct wiresum_message *message);
};

#endif
