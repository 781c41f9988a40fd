//! wiresum-node
