//! wiresum-xdp
