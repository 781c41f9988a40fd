//! wiresum-python
