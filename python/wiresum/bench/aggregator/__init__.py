"""What a packet costs each engine: `measure` asks, `network` has the hosts, `load` and `relay` run at them."""
