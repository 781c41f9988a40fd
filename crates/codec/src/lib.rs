//! wiresum-codec
